"""Room on a disk: enough before the start, and what to say when it runs out on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .errors import Refused, SystemFault

UNITS = ("bytes", "kB", "MB", "GB", "TB")
FULL = (errno.ENOSPC, errno.EDQUOT)
ELSEWHERE = "runner images prune, or RUNNER_SCRATCH=DIR on another file system"


def check(folder: Path, needed: int, what: str = "the image") -> None:
    """Raise Refused when `what`, of `needed` bytes, does not fit on the disk of `folder`."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise Refused(
            f"no space for {what}: it needs {shown(needed)}, {shown(free)} are free",
            str(folder),
            ELSEWHERE,
        )


def fault(path: Path, error: OSError) -> SystemFault:
    """Return what to raise when writing `path` failed."""
    if error.errno in FULL:
        return full(path.parent, str(error.strerror))
    return SystemFault(f"cannot write {path}", str(error.strerror or error))


def full(folder: Path, evidence: str) -> SystemFault:
    """Return what to raise when the disk is full; nothing half-made stays."""
    return SystemFault(f"the disk became full: {folder}", evidence, ELSEWHERE)


def shown(count: float) -> str:
    """Return a number of bytes in words: 40.0 kB, 1.2 GB (powers of 1000, as disks are sold)."""
    if count < 1000:
        return f"{count:.0f} bytes"
    unit = next((n for n in range(1, 4) if count < 1000 ** (n + 1)), 4)
    return f"{count / 1000**unit:.1f} {UNITS[unit]}"
