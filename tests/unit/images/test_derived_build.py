"""`runner build` of one definition and `--from`: what the base must be, where the image goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from containers.pip import PackageSource
from runners.core import sif
from runners.core.errors import Refused, UsageError
from runners.images import derived_build

from ..core.test_sif import make_sif
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
        derived_build.find_base(base)


def test_an_unpacked_image_is_no_base(base: str) -> None:
    Path("unpacked/.singularity.d").mkdir(parents=True)
    with pytest.raises(UsageError, match="--from unpacked is a folder; name an image file"):
        derived_build.find_base("unpacked")


def test_without_an_output_it_is_named_after_what_is_added(base: str, tmp_path: Path) -> None:
    my, extra, here = Path("my.def"), Path("extra.txt"), PackageSource()
    made = {
        "my.sif": derived_build.with_definition(base, my, {}, None, None),
        "torch-extra.sif": derived_build.with_packages(base, extra, here, None, None),
    }
    assert {name: build.output for name, build in made.items()} == {
        name: tmp_path / name for name in made
    }
    plain = derived_build.with_definition(None, my, {}, None, None)
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
        derived_build.with_definition(base, Path("my.def"), {}, Path(output), None)
