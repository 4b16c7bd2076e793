"""Horovod onto an image of others: what is found in it, what is refused, how it compiles."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from containers import definition, foreign_horovod
from containers.definition import Base
from containers.foreign_horovod import HorovodBuild

from .. import sentences
from ..programs import program

PACKAGES = {"torch": "2.3.0a0+nv24.04", "numpy": "1.26"}
THEIRS = {"PATH": "/opt/conda/bin:/usr/bin", "PYTHONPATH": ""}
CPU = {"compiler": "", "make": "", "python": "", "mpi": "", "nvcc": None, "nccl": "no nccl.h"}
BASE = Base(Path("/images/it's $(x).sif"), "d" * 64, {}, 10)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that says what can be compiled in the image."""

    def can(**answers: str | None) -> None:
        answer = json.dumps({**CPU, **answers, "variables": THEIRS})
        program(tmp_path / "apptainer", f"echo a greeting; echo {shlex.quote(answer)}")

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return can


def find(**packages: str) -> HorovodBuild:
    target = foreign_horovod.of_image(BASE, "/usr/bin/python3")
    return foreign_horovod.build_for(target, packages)


def test_only_what_is_there_is_compiled_in(image: Any) -> None:
    image()
    found = find(**PACKAGES)
    assert found.environ() == {
        **found.environ(),
        "PATH": "/mnt/tools/bin:/opt/conda/bin:/usr/bin",
        "PYTHONPATH": "/mnt/tools",
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
    }
    assert not {"HOROVOD_WITHOUT_MPI", "HOROVOD_GPU_OPERATIONS"} & set(found.environ())
    assert found.labels() == {
        "horovod.version": "0.28.1",
        "horovod.frameworks": "pytorch",
        "horovod.controllers": "mpi,gloo",
        "horovod.operations": "mpi,gloo",
    }


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-cpu", "Tensorflow_GPU"])
def test_both_frameworks_are_imported_as_its_test(image: Any, name: str) -> None:
    image()
    found = find(torch="2", **{name: "2.15"})
    assert found.labels()["horovod.frameworks"] == "pytorch,tensorflow"
    text = definition.with_packages("base.sif", "/usr/bin/python3", found.imports())
    definition.check(text, "x", {})
    test = text.partition("%test\n")[2].strip()
    assert test == "/usr/bin/python3 -s -c 'import horovod.tensorflow, horovod.torch'"


def test_without_an_mpi_it_is_gloo_alone_and_said(image: Any) -> None:
    image(mpi=None)
    found = find(**PACKAGES)
    assert found.environ()["HOROVOD_WITHOUT_MPI"] == "1"
    assert found.labels()["horovod.controllers"] == "gloo"
    assert "Horovod 0.28.1 for torch; controllers: Gloo alone" in found.summary()


def test_nccl_where_cuda_can_be_compiled(image: Any) -> None:
    image(nvcc="", nccl="")
    found = find(**PACKAGES)
    assert found.environ()["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert found.labels()["horovod.operations"] == "nccl,mpi,gloo"
    assert found.summary().endswith("for GPUs by NCCL")
    image(nvcc="")
    assert "HOROVOD_GPU_OPERATIONS" not in find(**PACKAGES).environ()


@pytest.mark.parametrize(
    ("answers", "evidence"),
    [
        ({"compiler": None}, "its program is not on the PATH there"),
        ({"make": None}, "its program is not on the PATH there"),
        ({"python": "Python.h: No such file"}, "Python.h: No such file"),
        ({"mpi": "mpi.h: No such file"}, "mpi.h: No such file"),
    ],
)
def test_a_base_in_which_nothing_compiles(
    image: Any, answers: dict[str, str | None], evidence: str
) -> None:
    image(**answers)
    with sentences.raises("horovod-not-compilable") as caught:
        find(**PACKAGES)
    assert caught.value.evidence == evidence
    (remedy,) = map(str, caught.value.remedies)
    assert remedy.startswith(f"runner build --from {shlex.quote(str(BASE.path))} --def my.def")


def test_a_base_without_a_framework() -> None:
    with sentences.raises("horovod-without-framework"):
        find(numpy="2")


def test_a_base_that_has_horovod_already() -> None:
    with sentences.raises("horovod-already-there"):
        find(horovod="0.27.0", torch="2")


def probe(folder: Path) -> dict[str, Any]:
    source = Path(foreign_horovod.__file__).with_name("probe_compilers.py").read_text()
    environ = {"PATH": str(folder)}
    command = [sys.executable, "-s", "-c", source]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_compiles_in_an_image_is_tried(tmp_path: Path) -> None:
    assert probe(tmp_path) == {
        **dict.fromkeys(("compiler", "make", "python", "mpi", "nvcc", "nccl")),
        "variables": {"PATH": str(tmp_path), "PYTHONPATH": ""},
    }
    # The compiler finds all headers but those of NCCL; MPI's own lacks its header.
    program(tmp_path / "g++", 'case "$*" in *cuda*) echo no nccl.h >&2; exit 1;; esac')
    program(tmp_path / "mpicxx", "echo no mpi.h >&2; exit 1")
    program(tmp_path / "make", "")
    found = probe(tmp_path)
    assert (found["compiler"], found["make"], found["python"]) == ("", "", "")
    assert (found["mpi"], found["nccl"], found["nvcc"]) == ("no mpi.h", "no nccl.h", None)
