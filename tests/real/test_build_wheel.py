"""`runner build wheel` after `make build-cpu`: the wheel is there, and nothing is compiled."""

from __future__ import annotations

import pytest

from . import built
from .conftest import IMAGE, Login

pytestmark = pytest.mark.slow

SITE = "/opt/horovod/lib/python3.11/site-packages"


def test_the_images_horovod_as_a_wheel(login: Login) -> None:
    folder = f"{login.folder}/wheel"
    done = built.build("wheel", "cpu", "-o", folder, seconds=60)
    assert "Horovod wheel" not in done.stderr
    name = done.stdout.strip().rpartition("/")[2]
    assert done.stdout == f"{folder}/{name}\n"
    assert done.stderr == login.sh(f"cat wheel/{name}.sha256")
    login.sh("cd wheel && sha256sum --check *.sha256")
    library = "horovod/torch/mpi_lib_v2*.so"
    packed = login.sh(f"apptainer exec {IMAGE} sh -c 'cat {SITE}/{library}' | sha256sum")
    login.sh(f"python3 -m zipfile -e wheel/{name} out")
    assert login.sh(f"cat out/{library} | sha256sum") == packed
