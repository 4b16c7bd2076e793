"""An image's file with a runtime that runs images of its own store, by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.core.errors import RunnerError
from runners.core.model import RuntimeName
from runners.images import file_for_store

from .. import sentences

SHIFTER, PODMAN_HPC = RuntimeName.SHIFTER, RuntimeName.PODMAN_HPC


def refused(name: str, runtime: RuntimeName, *others: RuntimeName) -> RunnerError:
    with sentences.raises("image-file-for-store") as caught:
        file_for_store.check(name, runtime, others)
    return caught.value


def test_shifter_takes_it_from_a_registry(here: Path) -> None:
    (here / "my.sif").touch()
    (remedy,) = refused("my.sif", SHIFTER).remedies
    assert remedy.text == (
        "runner push my.sif docker://REGISTRY/my:1 && shifterimg pull docker:REGISTRY/my:1"
    )
    assert remedy.options == (("image", "docker:REGISTRY/my:1"),)


def test_podman_hpc_takes_it_from_a_registry_after_it_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))
    (remedy,) = refused("horovod_gpu.sif", PODMAN_HPC).remedies
    assert remedy.text == (
        "runner build gpu && runner push horovod_gpu.sif docker://REGISTRY/horovod_gpu:1 && "
        "podman-hpc pull REGISTRY/horovod_gpu:1"
    )
    assert remedy.options == (("image", "REGISTRY/horovod_gpu:1"),)


def test_the_sites_apptainer_comes_first() -> None:
    apptainer, singularity = RuntimeName.APPTAINER, RuntimeName.SINGULARITY
    first, _ = refused("my.sif", SHIFTER, apptainer, singularity).remedies
    assert first.options == (("runtime", "apptainer"),)


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("docker:ada/horovod:gpu", SHIFTER),
        ("localhost/horovod:latest", PODMAN_HPC),
        ("my.sif", RuntimeName.APPTAINER),
        ("my.sif", RuntimeName.NONE),
        (None, SHIFTER),
    ],
)
def test_what_is_no_such_file(name: str | None, runtime: RuntimeName) -> None:
    file_for_store.check(name, runtime, ())
