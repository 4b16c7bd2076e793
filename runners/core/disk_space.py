"""Free space of a folder: bytes, inodes, what its mount allows, and the error when it runs out."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..contract.log_text import human_size
from . import machine, places
from .errors import Refused, SystemFault, UsageError
from .remedy import Remedy, command

# Apptainer 1.4 fails with a temporary folder of such a name, in %post or as it reads labels.
UNUSABLE = frozenset("'\";,:")
MEMORY = frozenset({"tmpfs", "ramfs"})
FULL = (errno.ENOSPC, errno.EDQUOT)
ELSEWHERE = "Free some, or name another place: RUNNER_SCRATCH=<folder>"
FREE_SPACE = "runner images prune, or RUNNER_SCRATCH=DIR on another file system"
OCTAL = re.compile(r"\\([0-7]{3})")  # as the kernel writes a space in a path


@dataclass(frozen=True)
class Needs:
    """An estimate of what a build fills at its peak."""

    bytes: int
    inodes: int


@dataclass(frozen=True)
class Volume:
    """A folder's file system: free bytes and inodes, and its mount."""

    folder: Path
    bytes: int
    inodes: int | None  # None where the file system does not count them
    type: str
    flags: int

    @classmethod
    def of(cls, folder: Path) -> Volume:
        disk = os.statvfs(folder)
        inodes = disk.f_favail if disk.f_files else None
        return cls(folder, free_bytes(folder), inodes, mount_type(folder), disk.f_flag)


def check_output(path: Path) -> None:
    """Raise UsageError when the image that --output names could not be written."""
    path = path.absolute()
    if path.is_dir():
        raise UsageError(
            f"--output {path} is a folder; name a file, such as my.sif", id="output-is-folder"
        )
    folder = next(folder for folder in path.parents if folder.exists())
    if not folder.is_dir():
        raise UsageError(f"--output {path}: {folder} is not a folder", id="output-folder-missing")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output {path}: you cannot write in {folder}", id="output-not-writable")


def mount_type(path: Path, mounts: str | None = None) -> str:
    """The file system type, such as nfs4, of the innermost mount of a path; format: fstab(5)."""
    if mounts is None:
        path, mounts = path.resolve(), Path("/proc/self/mounts").read_text(errors="surrogateescape")
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, mount_point, type_name, *_ = line.split(" ")
        mount_point = OCTAL.sub(lambda code: chr(int(code[1], 8)), mount_point)
        inside = f"{path}/".startswith(f"{mount_point.rstrip('/')}/")
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, type_name
    return kind


def check_volume(volume: Volume, needs: Needs, memory: int) -> list[str]:
    """Warnings, or Refused for what cannot end well. `memory`: bytes available to programs."""
    folder = f"{volume.folder} ({volume.type})"
    build = f"a build needs about {human_size(needs.bytes)}"
    if volume.bytes < needs.bytes:
        free = f"{human_size(volume.bytes)} free"
        raise Refused(
            f"no space to build: {folder} has {free}, {build}.\n{ELSEWHERE}", id="build-space"
        )
    if volume.inodes is not None and volume.inodes < needs.inodes:
        raise Refused(
            f"no room for more files: {folder} has {volume.inodes} inodes free, a build needs about"
            f" {needs.inodes}.\n{ELSEWHERE}",
            id="build-inodes",
        )
    check_usable(volume)
    problems = []
    if volume.flags & os.ST_NODEV:
        problems.append(f"{folder} is mounted nodev: an image with device files cannot be unpacked")
    if volume.type in MEMORY:
        if memory < needs.bytes:
            free = f"{human_size(memory)} of memory are available"
            raise Refused(
                f"{folder} is in memory, and {free}; {build} there.\n{ELSEWHERE}",
                id="build-in-memory",
            )
        problems.append(f"{folder} is in memory: what the build writes is taken from programs")
    return problems


def check_usable(volume: Volume) -> None:
    """Refused where Apptainer cannot build at all, in whatever way."""
    odd = "".join(sorted(UNUSABLE & set(str(volume.folder))))
    if odd:
        raise Refused(
            f"Apptainer cannot build below {volume.folder}: it has {odd}\n{ELSEWHERE}",
            id="build-folder-unusable",
        )
    if volume.flags & os.ST_NOEXEC:
        raise Refused(
            f"{volume.folder} ({volume.type}) is mounted noexec: programs of the image cannot run"
            f" there while it is built.\n{ELSEWHERE}",
            id="build-folder-noexec",
        )


def require(folder: Path, needs: Needs, say: Callable[[str], None]) -> None:
    """Check `folder`, which exists, on this machine; say what may do harm. Raises Refused."""
    for warning in check_volume(Volume.of(folder), needs, machine.available_memory()):
        say(f"warning: {warning}")


def free_bytes(folder: Path) -> int:
    """Bytes that an ordinary user may still write in a folder. Raises OSError."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def check(
    folder: Path, needed: int, what: str = "the image", remedy: str | Remedy = FREE_SPACE
) -> None:
    """Raise Refused when `what`, of `needed` bytes, does not fit on the disk of `folder`."""
    free = free_bytes(folder)
    if free < needed:
        raise Refused(
            f"no space for {what}: it needs {human_size(needed)}, {human_size(free)} are free",
            str(folder),
            remedy,
            id="disk-space",
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise SystemFault when what is done within cannot write `path`; say so of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise full(path.parent, str(error.strerror)) from None
        raise SystemFault(
            f"cannot write {path}", str(error.strerror or error), id="file-not-written"
        ) from None


def full(folder: Path, evidence: str) -> SystemFault:
    """Return the error to raise when the disk became full; nothing half-written stays."""
    ours = places.scratch() in (folder, *folder.parents)
    remedy = FREE_SPACE if ours else command("df", "-h", folder)
    return SystemFault(f"the disk became full: {folder}", evidence, remedy, id="disk-full")
