"""Where things go on disk: scratch, never $HOME or a small /tmp."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from containers import places


def scratch() -> Path:
    """Return the scratch folder: RUNNER_SCRATCH, SCRATCH, /scratch/$USER, else the user's cache."""
    return places.scratch({**os.environ, "USER": getpass.getuser()})


def images() -> Path:
    """Return the folder where built images lie."""
    return scratch() / "images"
