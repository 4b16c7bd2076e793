"""What `runner build` makes in the toolbox, on the scratch of this worker's cluster."""

from __future__ import annotations

import shlex
import subprocess
import sys

from .conftest import CHECKOUT, Done, succeeded


def build(*words: str, seconds: float) -> Done:
    """Run `runner build` as ada, with the host's network; it must end well."""
    return succeeded(run(*words, seconds=seconds))


def run(*words: str, seconds: float) -> Done:
    """The same, however it ends."""
    command = [sys.executable, "-m", "tests.cluster", "runner", "--", "build", *words]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds)


def words(command: str) -> list[str]:
    """Return what stands after `runner build` in a command of the documentation."""
    return shlex.split(command)[2:]
