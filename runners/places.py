"""Where things go on disk: scratch, never $HOME or a small /tmp."""

from __future__ import annotations

import getpass
import os
from pathlib import Path


def scratch() -> Path:
    """Return the scratch folder: RUNNER_SCRATCH, SCRATCH, /scratch/$USER, else the user's cache."""
    for name in ("RUNNER_SCRATCH", "SCRATCH"):
        if os.environ.get(name):
            return Path(os.environ[name])
    shared = Path("/scratch", getpass.getuser())
    if shared.is_dir():
        return shared
    if os.environ.get("RUNNER_CACHE"):
        return Path(os.environ["RUNNER_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "horovod-runner")


def images() -> Path:
    """Return the folder where built images lie."""
    return scratch() / "images"
