"""Two builds from nothing give one file, byte for byte."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import CHECKOUT, Login, succeeded

pytestmark = pytest.mark.slow

BUILD = "cd /opt/kit && exec /opt/runner/bin/python -m tests.real.small.twice {arguments}"
# What compiling Horovod leaves: the packages, installed and already imported.
INSTALL = """
umask 002  # Apptainer's, for %post
mkdir -p installed/lib/__pycache__
echo 'VALUE = 1' > installed/lib/package.py
touch installed/pyvenv.cfg installed/lib/__pycache__/package.cpython-311.pyc
chmod 755 installed
"""
LABELS = "apptainer inspect one/images/small.sif"


def build(*arguments: str) -> None:
    toolbox = [sys.executable, "-m", "tests.cluster", "toolbox", "--"]
    command = [*toolbox, "sh", "-c", BUILD.format(arguments=" ".join(arguments))]
    succeeded(subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300))


def test_two_cold_builds_give_the_same_file(login: Login) -> None:
    for name in ("one", "two"):
        build(f"{login.folder}/{name}")
    login.sh("cmp one/images/small.sif two/images/small.sif")
    # Not because it is empty: it has labels, and the trainers lie where they belong.
    labels = login.sh(LABELS)
    assert "org.opencontainers.image.created: 2023-11-14T22:13:20Z" in labels
    assert "python.version: 3.11." in labels
    assert "build-date" not in labels
    trainers = login.sh("apptainer exec one/images/small.sif ls /trainers/recipes").split()
    assert {"torch_mnist.py", "torch_mnist.toml", "__pycache__"} <= set(trainers)


def test_packages_that_horovod_was_compiled_against_are_moved_into_the_image(login: Login) -> None:
    """The image is that which installs them itself; nothing is left of the folder."""
    login.sh(INSTALL)
    build(f"{login.folder}/moved", f"{login.folder}/installed")
    login.sh("test ! -e installed")
    build(f"{login.folder}/plain")
    login.sh("cmp plain/images/small.sif moved/images/small.sif")
    login.sh("apptainer exec moved/images/small.sif python3 /opt/horovod/lib/package.py")
