"""Where things go on disk: scratch, never $HOME or a small /tmp."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

from .errors import SystemFault


def user_cache(environ: Mapping[str, str]) -> Path:
    """Return RUNNER_CACHE, else the project's folder below XDG_CACHE_HOME or ~/.cache."""
    if environ.get("RUNNER_CACHE"):
        return Path(environ["RUNNER_CACHE"]).absolute()
    base = environ.get("XDG_CACHE_HOME") or str(_home() / ".cache")
    return Path(base).absolute() / "horovod-runner"


def _home() -> Path:
    """The home folder, nothing in its stead: in /tmp anybody could have made our folder."""
    try:
        return Path.home()
    except RuntimeError:
        why = "the system knows no home folder for this user"
        raise SystemFault(why, remedy="export RUNNER_SCRATCH=DIR", id="home-unknown") from None


def scratch_of(environ: Mapping[str, str]) -> Path:
    """Return RUNNER_SCRATCH, else SCRATCH, else /scratch/$USER if it exists, else the cache."""
    for name in ("RUNNER_SCRATCH", "SCRATCH"):
        if environ.get(name):
            return Path(environ[name]).absolute()
    shared = Path("/scratch", environ.get("USER", ""))
    # Somebody else could have made it under the user's name.
    ours = shared.is_dir() and shared.stat().st_uid in (0, os.geteuid())
    return shared if environ.get("USER") and ours else user_cache(environ)


def scratch() -> Path:
    """Return this user's scratch folder; see `scratch_of`."""
    return scratch_of({**os.environ, "USER": user()})


def user() -> str:
    """Return the user's name, or the number where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an OSError since Python 3.13
        return str(os.getuid())


def data() -> Path:
    return scratch() / "data"


def images() -> Path:
    return scratch() / "images"


def private_cache() -> Path:
    """Return the folder of small files that are trusted: the user's own, not a group's scratch."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "horovod-runner")


def user_settings(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's own settings (XDG Base Directory Specification)."""
    base = env.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base, "runner")
