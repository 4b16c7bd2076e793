"""`runner build wheel` after `make build-cpu`: the wheel is there, and nothing is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from containers import toolbox
from tests.cluster.state import UID, State

from .conftest import CHECKOUT, IMAGE, Login

pytestmark = pytest.mark.slow

SITE = "/opt/horovod/lib/python3.11/site-packages"


def _bring(folder: str) -> None:
    """Root builds on the scratch of the first cluster, which need not be this worker's."""
    built = toolbox.on_host(Path(folder), os.environ)
    here = State.locate().scratch / Path(folder).relative_to("/scratch")
    if here == built:
        return
    shutil.copytree(built, here)
    os.chown(here, UID, UID)
    shutil.rmtree(built.parent)


def test_the_images_horovod_as_a_wheel(login: Login) -> None:
    folder = f"{login.folder}/wheel"
    command = [sys.executable, "-m", "runners", "build", "wheel", "cpu", "-o", folder]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Horovod wheel" not in done.stderr
    _bring(folder)
    name = done.stdout.strip().rpartition("/")[2]
    assert done.stdout == f"{folder}/{name}\n"
    assert done.stderr == login.sh(f"cat wheel/{name}.sha256")
    login.sh("cd wheel && sha256sum --check *.sha256")
    library = "horovod/torch/mpi_lib_v2*.so"
    built = login.sh(f"apptainer exec {IMAGE} sh -c 'cat {SITE}/{library}' | sha256sum")
    login.sh(f"python3 -m zipfile -e wheel/{name} out")
    assert login.sh(f"cat out/{library} | sha256sum") == built
