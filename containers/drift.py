"""Compares the Debian packages of a build with those that the lock names.

Archives replace packages by newer ones and drop the old, so a lock cannot bring them back: a build
reports what differs, and `--frozen` refuses it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import lockfile
from .errors import BuildError

SECTIONS = ("debian", "debian-build")
SHOWN = 10


def section(path: Path, image_definition: Path) -> str:
    """The lock's section for the base of one definition."""
    return SECTIONS[0] if path == image_definition else SECTIONS[1]


def differences(locked: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """One line for each package that is not as locked."""
    found = []
    for name in sorted({*locked, *installed}):
        was, now = locked.get(name), installed.get(name)
        if was != now:
            found.append(f"{name}: locked {was or 'not at all'}, now {now or 'absent'}")
    return found


def check(installed: Mapping[str, str], lock: Path, section: str, frozen: bool) -> None:
    """Say what differs, on standard error; BuildError when `frozen`."""
    differing = differences(lockfile.debian(lock, section), installed)
    if not differing:
        return
    text = report(differing, lock.name)
    if frozen:
        raise BuildError(f"{text}\n--frozen allows none of it. To renew the lock: make lock")
    print(text, file=sys.stderr)


def report(differing: Iterable[str], lock: str) -> str:
    """The differences as text, the first few by name."""
    lines = list(differing)
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    shown = [f"  {line}" for line in lines[:SHOWN]]
    return "\n".join([f"{len(lines)} Debian packages differ from {lock}:", *shown, *more])
