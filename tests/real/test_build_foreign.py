"""Horovod onto an image that is not ours: Debian 12 with compilers, Open MPI and torch."""

from __future__ import annotations

import os
import shutil

import pytest

from containers import catalogue
from tests.bench import plain
from tests.cluster.state import UID, State

from .conftest import Login
from .test_elsewhere import HELLO, TWO, ranks
from .yard import Yard, yard

__all__ = ["yard"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="the test cluster needs root"),
]
SECONDS = 1500  # of which compiling for torch alone takes 180 on two quiet cores
BASE = """Bootstrap: docker-archive
From: base.tar
%post
  python3 -m venv /opt/theirs
  /opt/theirs/bin/pip install --quiet --no-index --find-links /mnt torch numpy
%environment
  export PATH="/opt/theirs/bin:$PATH"
"""
MAKE = """
apptainer build --fakeroot --bind "$PWD/wheels:/mnt:ro" \\
    --mksquashfs-args '-comp zstd -Xcompression-level 1' theirs.sif base.def
"""


@pytest.fixture(scope="module")
def theirs(yard: Yard) -> Login:
    """Make theirs.sif, from the base that our own Horovod is compiled in and the wheels beside."""
    plan = plain.image_plan()
    base = plan.base_archive(catalogue.HERE / plan.image.wheel_definition)
    folder = State.locate().scratch / yard.folder.partition("/scratch/")[2]
    shutil.copytree(plan.wheels, folder / "wheels", copy_function=os.link)
    os.chown(folder / "wheels", UID, UID)  # who removes it
    os.link(base, folder / "base.tar")
    yard.write("base.def", BASE)
    done = yard.run("bash", "-ec", MAKE, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return yard


def test_it_is_compiled_for_what_is_there_and_runs_on_two_nodes(theirs: Login) -> None:
    words = ["--from", "theirs.sif", "--horovod", "--wheelhouse", "wheels", "-o", "mine.sif"]
    scratch = {"RUNNER_SCRATCH": f"{theirs.folder}/scratch"}
    done = theirs.run("runner", "build", *words, env=scratch, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert "Horovod 0.28.1 for torch; controllers: MPI and Gloo; for CPUs" in done.stderr
    labels = theirs.sh("apptainer inspect mine.sif")
    for label in ("horovod.frameworks: pytorch", "horovod.controllers: mpi,gloo"):
        assert label in labels
    assert "mpi.version: 4.1.4" in labels
    assert "org.opencontainers.image.base.name: theirs.sif" in labels
    # Nothing of what it was compiled with.
    assert theirs.sh("apptainer exec mine.sif sh -c 'ls /opt/theirs/bin'").count("cmake") == 0
    hello = theirs.write("hello.py", HELLO)
    for controller in ("mpi", "gloo"):
        launch = ["launch", "--image", "mine.sif", *TWO, "--all", "--controller", controller]
        done = theirs.runner(*launch, "--follow", hello)
        assert done.returncode == 0, done.stdout + done.stderr
        expected = [(f"n{rank + 1}", str(rank), "2", "3.0", "/opt/theirs") for rank in range(2)]
        assert ranks(done.stdout) == expected
    again = theirs.runner("build", "--from", "mine.sif", "--horovod", env=scratch)
    assert again.returncode == 80
    assert "mine.sif already has Horovod 0.28.1" in again.stderr
