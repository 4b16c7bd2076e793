"""What a build starts from and where its image goes; and when `--or-build` builds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from containers import build_record, plan
from containers.pip import PackageSource
from containers.plan import BuildOptions
from runners.core import sif
from runners.core.errors import NotFound, NotVerified, Refused, RunnerError, SystemFault, UsageError
from runners.images import build
from runners.images.release import release

from ..core.test_sif import make_sif
from ..listener import Told
from ..programs import program

DEFINITION = "Bootstrap: docker\nFrom: x\n"
PYTHON = json.dumps({"python": "/usr/bin/python3", "pip": "24.0", "packages": {}})


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image with a Python in the current folder, which a container runtime can ask."""
    program(tmp_path / "bin" / "apptainer", f"echo '{PYTHON}'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    make_sif(tmp_path / "torch.sif", {"torch.version": "2.3"})
    for name in ("my.def", "extra.txt"):
        (tmp_path / name).write_text(DEFINITION)
    return "torch.sif"


def test_an_image_for_another_architecture_is_no_base(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sif, "architecture", lambda objects: "ppc64")
    with pytest.raises(Refused, match=r"torch\.sif is for ppc64, and this machine is a"):
        build.find_base(base)


def test_an_unpacked_image_is_no_base(base: str) -> None:
    Path("unpacked/.singularity.d").mkdir(parents=True)
    with pytest.raises(UsageError, match="--from unpacked is a folder; name an image file"):
        build.find_base("unpacked")


def test_without_an_output_it_is_named_after_what_is_added(base: str, tmp_path: Path) -> None:
    my, extra, here = Path("my.def"), Path("extra.txt"), PackageSource()
    made = {
        "my.sif": build.with_definition(base, my, {}, None, None),
        "torch-extra.sif": build.with_packages(base, extra, here, None, None),
    }
    assert {name: each.output for name, each in made.items()} == {
        name: tmp_path / name for name in made
    }
    plain = build.with_definition(None, my, {}, None, None)
    assert (plain.output, plain.base) == (tmp_path / "my.sif", None)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("torch.sif", "is the base image; name another file"),
        ("linked.sif", "is the base image; name another file"),
        ("bin", "is a folder; name a file"),
    ],
)
def test_an_output_that_cannot_be_written(base: str, output: str, message: str) -> None:
    Path("linked.sif").symlink_to("torch.sif")
    with pytest.raises(UsageError, match=message):
        build.with_definition(base, Path("my.def"), {}, Path(output), None)


# runner pull cpu --or-build


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A source of images, and no image of this checkout."""
    monkeypatch.setenv("RUNNER_IMAGES_SOURCE", "oras://example.org/kit")
    monkeypatch.setenv("RUNNER_SITE", "none")
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path))


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def verified(*_: object) -> None:
        raise error

    monkeypatch.setattr(release, "verified", verified)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("error", [SystemFault("it is down"), NotFound("it is behind")])
def test_what_cannot_be_pulled_is_to_be_built(
    error: RunnerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(error, monkeypatch)
    told = Told()
    assert build.pull_unless_current("cpu", told) is None
    assert told.texts == [str(error), "building instead"]


@pytest.mark.usefixtures("source")
def test_a_wrong_signature_is_no_reason_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(NotVerified("altered"), monkeypatch)
    with pytest.raises(NotVerified, match="altered"):
        build.pull_unless_current("cpu", Told())


@pytest.mark.usefixtures("source")
def test_a_current_build_is_not_replaced_by_a_prebuilt_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_with(SystemFault("it was asked"), monkeypatch)
    made = plan.make("cpu", BuildOptions())
    made.output.parent.mkdir()
    made.output.write_text("an image")
    build_record.write(made.output, made.key)
    told = Told()
    assert build.pull_unless_current("cpu", told) is None
    assert told.texts == []
