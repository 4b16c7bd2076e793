"""What `runner build` makes in the toolbox, on the scratch of this worker's cluster."""

from __future__ import annotations

import subprocess
import sys

from .conftest import CHECKOUT, Done


def build(*words: str, seconds: float) -> Done:
    """Run `runner build` as ada, with the host's network; it must end well."""
    command = [sys.executable, "-m", "tests.cluster", "runner", "--", "build", *words]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done
