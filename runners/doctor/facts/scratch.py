"""The places that a launch and a build write to: room, inodes, and what their mounts allow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from containers.space import Volume

from ...core import places
from ..question import in_time

SECONDS = 10.0
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Place:
    """A folder by its role. `volume` is None when its file system did not answer in time."""

    role: str
    path: Path
    volume: Volume | None
    writable: bool = False


def look(runs_dir: Path) -> tuple[Place, ...]:
    """Ask about scratch, the folder for runs, and memory that processes share."""
    roles = (("scratch", places.scratch()), ("runs", runs_dir), ("shared memory", SHARED_MEMORY))
    return tuple(place(role, path) for role, path in roles)


def place(role: str, path: Path) -> Place:
    """Ask about a folder, or what will be its parent; a dead file system answers never."""
    found = in_time(lambda: _ask(path), SECONDS)
    return Place(role, path, *found) if found else Place(role, path, None)


def _ask(path: Path) -> tuple[Volume, bool]:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return Volume.of(there), os.access(there, os.W_OK | os.X_OK)
