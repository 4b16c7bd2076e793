"""The folders of a build: what is kept by content, what is temporary, and the images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.core import places


@dataclass(frozen=True)
class BuildFolders:
    """All folders of a build."""

    cache: Path  # wheels/ and builds/, by content
    work: Path  # tmp/, logs/ and Apptainer's cache
    images: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str]) -> BuildFolders:
        space = places.scratch_of(environ)
        below = space if space == places.user_cache(environ) else space / "horovod-runner"
        cache = places.user_cache(environ) if environ.get("RUNNER_CACHE") else below
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
