"""Where wheels, intermediate results and images lie: on scratch, never in a small /tmp or $HOME."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def user_cache(environ: Mapping[str, str]) -> Path:
    """RUNNER_CACHE, else the project's folder below XDG_CACHE_HOME or ~/.cache."""
    if environ.get("RUNNER_CACHE"):
        return Path(environ["RUNNER_CACHE"]).absolute()
    base = environ.get("XDG_CACHE_HOME") or str(_home() / ".cache")
    return Path(base).absolute() / "horovod-runner"


def _home() -> Path:
    """The home folder; where the system knows none for this user, the one for temporary files."""
    try:
        return Path.home()
    except RuntimeError:
        import tempfile  # rarely needed, and slow to load

        return Path(tempfile.gettempdir())


def scratch(environ: Mapping[str, str]) -> Path:
    """RUNNER_SCRATCH, else SCRATCH, else /scratch/$USER if it exists, else the user's cache."""
    for name in ("RUNNER_SCRATCH", "SCRATCH"):
        if environ.get(name):
            return Path(environ[name]).absolute()
    shared = Path("/scratch", environ.get("USER", ""))
    return shared if environ.get("USER") and shared.is_dir() else user_cache(environ)


@dataclass(frozen=True)
class Places:
    """All folders of a build."""

    cache: Path  # wheels/ and builds/, by content
    work: Path  # tmp/, logs/ and Apptainer's cache
    images: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str]) -> Places:
        space = scratch(environ)
        below = space if space == user_cache(environ) else space / "horovod-runner"
        cache = user_cache(environ) if environ.get("RUNNER_CACHE") else below
        return cls(cache, below, space / "images")

    @property
    def wheels(self) -> Path:
        """One folder per pair of locks."""
        return self.cache / "wheels"

    @property
    def builds(self) -> Path:
        """Bases and compiled Horovod wheels."""
        return self.cache / "builds"

    @property
    def temporary(self) -> Path:
        """Emptied when a build starts; nothing else writes here."""
        return self.work / "tmp"

    @property
    def logs(self) -> Path:
        """One log per step, overwritten by the next run of the step."""
        return self.work / "logs"
