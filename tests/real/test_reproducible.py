"""Two builds from nothing give one file, byte for byte."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import CHECKOUT, Login, succeeded

pytestmark = pytest.mark.slow

BUILD = "cd /opt/kit && exec /opt/runner/bin/python -m tests.real.small.twice {folder}"
LABELS = "apptainer inspect one/images/small.sif"


def build(folder: str) -> None:
    toolbox = [sys.executable, "-m", "tests.cluster", "toolbox", "--"]
    command = [*toolbox, "sh", "-c", BUILD.format(folder=folder)]
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
