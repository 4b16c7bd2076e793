"""`make demo` for an ordinary user of a machine: no root, no Slurm, no Apptainer."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.state import CHECKOUT

from .conftest import succeeded

USER = 4242  # of no name
PASSED_ON = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's with a clone of this checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder / "kit")], check=True)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder)], check=True)
        yield folder


@pytest.mark.slow
def test_the_demo_trains_two_ranks_and_says_what_was_left_out(home: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    done = succeeded(
        subprocess.run(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "make", "demo"],
            cwd=home / "kit",
            env={**environ, "HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
        )
    )
    assert "error: not root" in done.stderr
    assert "one world of 2 ranks" in done.stdout
    assert "make demo, as root on Debian" in done.stdout
