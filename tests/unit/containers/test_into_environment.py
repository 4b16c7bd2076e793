"""`runner build horovod --into DIR`: what it asks the environment, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .. import sentences
from ..programs import program
from .test_host_environment import build

NOTHING = {"make": "", "python": "", "mpi": None, "nvcc": None, "nccl": "no nccl.h"}
ANSWERS = """\
case "$*" in
*nvcc*) echo '{can}' ;;
*) echo '{packages}' ;;
esac"""


def environment(folder: Path, compiler: str | None, **packages: str) -> Path:
    """Make what answers as the Python of an environment, with packages and a compiler."""
    variables = {"PATH": "/usr/bin", "PYTHONPATH": ""}
    can = json.dumps({**NOTHING, "compiler": compiler, "variables": variables})
    answers = ANSWERS.format(can=can, packages=json.dumps({"packages": packages}))
    program(folder / "bin" / "python", answers)
    return folder


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_SCRATCH", str(tmp_path / "scratch"))


def refused(folder: Path, code: int) -> tuple[str, ...]:
    """Return the id and the remedies of the error with which the command ends."""
    done = build("horovod", "--into", str(folder))
    assert done.error is not None
    assert done.exit_code == code
    return sentences.told(done.error)


@pytest.mark.parametrize("words", [(), ("DIR",), ("--into",), ("--into", "a", "b")])
def test_it_takes_one_environment(words: tuple[str, ...]) -> None:
    assert build("horovod", *words).exit_code == 2


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone", 2) == ("not-an-environment",)
    assert not (tmp_path / "gone").exists()


def test_what_is_refused_names_what_to_type(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", None, torch="2.1", numpy="1")
    id, remedy = refused(folder, 80)
    assert id == "horovod-not-compilable"
    assert remedy.startswith("--module, of a compiler or an MPI")
    (folder / "conda-meta").mkdir()
    id, remedy = refused(folder, 80)
    assert id == "horovod-not-compilable"
    assert remedy.startswith(f"conda install -p {folder} gxx_linux-64")
    environment(folder, "", numpy="1")
    id, _ = refused(folder, 80)
    assert id == "horovod-without-framework"
    environment(folder, "", torch="2.1", horovod="0.28.0")
    id, remedy = refused(folder, 80)
    assert id == "horovod-already-there"
    assert "pip uninstall horovod" in remedy
