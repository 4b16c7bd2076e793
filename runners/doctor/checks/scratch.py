"""The places that a launch and a build write to: room, inodes, and what their mounts allow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...core import places
from ...core.disk_space import MEMORY, Volume
from ..finding import FAILURE, OK, WARNING, About, Finding
from ..timed import in_time

SECONDS = 10.0
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class ScratchFolder:
    """A folder by its role. `volume` is None when its file system did not answer in time."""

    role: str
    path: Path
    volume: Volume | None
    writable: bool = False


def probe(runs_dir: Path) -> tuple[ScratchFolder, ...]:
    """Ask about scratch, the folder for runs, and memory that processes share."""
    roles = (("scratch", places.scratch()), ("runs", runs_dir), ("shared memory", SHARED_MEMORY))
    return tuple(ask_folder(role, path) for role, path in roles)


def ask_folder(role: str, path: Path) -> ScratchFolder:
    """Ask about a folder, or what will be its parent; a dead file system answers never."""
    answer = in_time(lambda: _ask(path), SECONDS)
    return ScratchFolder(role, path, *answer) if answer else ScratchFolder(role, path, None)


def _ask(path: Path) -> tuple[Volume, bool]:
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    return Volume.of(existing), os.access(existing, os.W_OK | os.X_OK)


ABOUT = About("disk")
GB = 10**9
# A run's folder; a build of the CPU image from nothing; Python's data loaders and NCCL's buffers.
TOO_LITTLE = {"scratch": GB // 10, "runs": 64 * 2**20, "shared memory": 64 * 2**20}
LITTLE = {"scratch": 15 * GB, "runs": GB, "shared memory": GB}
FEW_INODES = 100_000
ELSEWHERE = {
    "scratch": "export RUNNER_SCRATCH=FOLDER",
    "runs": "runner launch --runs-dir FOLDER ...",
    "shared memory": "mount -o remount,size=8G /dev/shm, as an administrator",
}


def check(places: tuple[ScratchFolder, ...]) -> list[Finding]:
    return [_place(place) for place in places]


def _place(place: ScratchFolder) -> Finding:
    if place.volume is None:
        says = f"{place.path} did not answer within {SECONDS:.0f} s"
        return ABOUT.failure(place.role, says, "", ELSEWHERE[place.role])
    complaints = _complaints(place, place.volume)
    severity = (OK, WARNING, FAILURE)[max((weight for weight, _ in complaints), default=0)]
    says = "; ".join(text for _, text in complaints) or _room(place.volume)
    files = "" if place.volume.inodes is None else f", room for {place.volume.inodes} files"
    evidence = f"{place.path}: {place.volume.type}, {_room(place.volume)}{files}"
    return ABOUT.finding(place.role, severity, says, evidence, ELSEWHERE[place.role])


def _complaints(place: ScratchFolder, volume: Volume) -> list[tuple[int, str]]:
    """Return what is wrong, each with its weight: 1 for a warning, 2 for a failure."""
    complaints = []
    if not place.writable:
        complaints.append((2, f"you cannot write in {place.path}"))
    if volume.bytes < TOO_LITTLE[place.role]:
        complaints.append((2, f"no space: {_room(volume)}"))
    elif volume.bytes < LITTLE[place.role]:
        complaints.append((1, f"little space: {_room(volume)}"))
    if place.role == "shared memory":
        return complaints
    if volume.inodes is not None and volume.inodes < FEW_INODES:
        complaints.append((1, f"room for only {volume.inodes} more files"))
    if volume.type in MEMORY:
        complaints.append(
            (1, "it is in memory: it takes memory from programs, and other nodes cannot access it")
        )
    if volume.flags & os.ST_NOEXEC and place.role == "scratch":
        complaints.append((1, "it is mounted noexec: no image can be built there"))
    return complaints


def _room(volume: Volume) -> str:
    return f"{volume.bytes / GB:.1f} GB free"
