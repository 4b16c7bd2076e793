"""What root builds on the host, after `make build-cpu`, brought to this worker's cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from containers import toolbox
from tests.cluster.state import UID, State

from .conftest import CHECKOUT, Done


def build(*words: str, seconds: float) -> Done:
    """Run `runner build` in the checkout; it must end well."""
    command = [sys.executable, "-m", "runners", "build", *words]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done


def bring(folder: str) -> None:
    """Root builds on the scratch of the first cluster, which need not be this worker's."""
    built = toolbox.on_host(Path(folder), os.environ)
    here = State.locate().scratch / Path(folder).relative_to("/scratch")
    if here == built:
        return
    shutil.copytree(built, here)
    os.chown(here, UID, UID)
    shutil.rmtree(built.parent)
