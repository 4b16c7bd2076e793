"""Room on a disk: enough before the start, and what to say when it runs out on the way."""

from __future__ import annotations

import errno
from pathlib import Path

from containers.remedy import Remedy
from containers.space import require_bytes, shown

from .errors import SystemFault

__all__ = ["FULL", "check", "fault", "full", "shown"]
FULL = (errno.ENOSPC, errno.EDQUOT)
ELSEWHERE = "runner images prune, or RUNNER_SCRATCH=DIR on another file system"


def check(
    folder: Path, needed: int, what: str = "the image", remedy: str | Remedy = ELSEWHERE
) -> None:
    """Raise Refused when `what`, of `needed` bytes, does not fit on the disk of `folder`."""
    require_bytes(folder, needed, what, remedy)


def fault(path: Path, error: OSError) -> SystemFault:
    if error.errno in FULL:
        return full(path.parent, str(error.strerror))
    return SystemFault(f"cannot write {path}", str(error.strerror or error))


def full(folder: Path, evidence: str) -> SystemFault:
    """Return what to raise when the disk is full; nothing half-made stays."""
    return SystemFault(f"the disk became full: {folder}", evidence, ELSEWHERE)
