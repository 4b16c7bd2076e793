"""Compares the Debian packages of a build with those that the lock names.

Archives replace packages by newer ones and drop the old, so a lock cannot bring them back: a build
reports what differs, and `--frozen` refuses it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import lockfile
from .errors import SystemFault

SECTIONS = ("debian", "debian-build")
SHOWN = 10
DPKG = ("dpkg-query", "--show", r"--showformat=Package: ${Package}\nVersion: ${Version}\n\n")


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
    """Say what differs, on standard error; SystemFault when `frozen`."""
    differing = differences(lockfile.debian(lock, section), installed)
    if not differing:
        return
    text = report(differing, lock.name)
    if frozen:
        raise SystemFault(f"{text}\n--frozen allows none of it. To renew the lock: make lock")
    print(text, file=sys.stderr)


def report(differing: Iterable[str], lock: str) -> str:
    """The differences as text, the first few by name."""
    lines = list(differing)
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    shown = [f"  {line}" for line in lines[:SHOWN]]
    return "\n".join([f"{len(lines)} Debian packages differ from {lock}:", *shown, *more])


def command(image: Path) -> list[str]:
    """What lists the packages of an image, in the form of dpkg's own status file."""
    return ["apptainer", "exec", "--cleanenv", str(image), *DPKG]


def both(installed: Mapping[str, str], lock: Path) -> dict[str, str]:
    """Of a registry's base: it has packages of its own, and our tools are gone from the image.

    The locked packages, with the version that is installed where there is one.
    """
    locked = lockfile.debian(lock, SECTIONS[0])
    return {name: installed.get(name, version) for name, version in locked.items()}
