"""Where things go on disk: scratch, never $HOME or a small /tmp."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from containers import places


def scratch() -> Path:
    """Return the scratch folder: RUNNER_SCRATCH, SCRATCH, /scratch/$USER, else the user's cache."""
    return places.scratch({**os.environ, "USER": user()})


def user() -> str:
    """Return the user's name, or the number where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an OSError since Python 3.13
        return str(os.getuid())


def data() -> Path:
    """Return the folder where fetched and packed datasets lie."""
    return scratch() / "data"


def images() -> Path:
    """Return the folder where built images lie."""
    return scratch() / "images"


def private_cache() -> Path:
    """Return the folder of small files that are trusted: the user's own, not a group's scratch."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "horovod-runner")
