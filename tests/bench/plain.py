"""A plain virtual environment on the host, with the very packages of the image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from containers import image_catalogue
from containers.build_plan import BuildPlan
from runners.core import atomic
from runners.core.digest import key
from tests.cluster import builds
from tests.cluster.state import State

from .errors import BenchError, Skipped

LIBRARIES = "Debian's libopenmpi3 and openmpi-bin (the image's Open MPI 4.1)"
LOADS = "import horovod.torch, sklearn"


def environment(plan: BuildPlan) -> Path:
    """The folder of the environment, made when it is not there yet; a minute, once.

    Raises Skipped when the host lacks what it takes, BenchError when pip fails.
    """
    if shutil.which("mpirun") is None:
        raise Skipped(f"mpirun is not on this machine: install {LIBRARIES}")
    folder = made(plan)
    _check(folder)
    return folder


def made(plan: BuildPlan) -> Path:
    """The same, for another machine that has the MPI."""
    python = _interpreter(plan.image.python)
    name = key(python=python, wheels=plan.wheels.name, horovod=plan.horovod.name)
    folder = plan.folders.cache / "builds" / f"plain-{name}"
    if not folder.exists():
        _make(plan, python, folder)
    return folder


def image_plan() -> BuildPlan:
    """What `make build-cpu` built."""
    return builds.image_plan(State.locate())


def _interpreter(version: str) -> str:
    """The distribution's own Python of the image's version, rather than one built elsewhere."""
    name = f"python{version}"
    found = shutil.which(name, path=os.defpath) or shutil.which(name)
    if found is None:
        raise Skipped(f"{name}, for which the image's wheels are made, is not on this machine")
    return found


def _make(plan: BuildPlan, python: str, folder: Path) -> None:
    if not plan.wheels.is_dir() or not plan.horovod.is_dir():
        raise Skipped(f"the image's wheels are not in {plan.folders.cache}: make build-cpu")
    print("bench: making the plain environment, once ...", file=sys.stderr)
    with atomic.new_folder(folder) as part:
        _run([python, "-m", "venv", "--without-pip", str(part)])
        pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"]
        install = [*pip, f"--python={part}/bin/python", "install", "--quiet", "--no-deps"]
        lock = f"--requirement={image_catalogue.HERE / plan.image.lock}"
        _run([*install, "--no-index", f"--find-links={plan.wheels}", "--require-hashes", lock])
        _run([*install, "--no-index", f"--find-links={plan.horovod}", "horovod"])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-10:])
        raise BenchError(f"exit code {done.returncode} from: {' '.join(command)}\n{tail}")


def _check(folder: Path) -> None:
    """Load what the trainer will load: the wheel needs the host's Open MPI and a glibc of 2.36."""
    command = [str(folder / "bin" / "python"), "-c", LOADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise Skipped(f"the image's packages do not load here; needed: {LIBRARIES}; {last}")
