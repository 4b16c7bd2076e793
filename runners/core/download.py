"""Bytes from anywhere into a new file, counted and hashed on the way."""

from __future__ import annotations

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

from containers.digest import sha256

from . import disk_space
from .errors import SystemFault
from .progress import Progress

CHUNK = 1 << 20


class Readable(Protocol):
    """What bytes come from: an answer, a file."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


def save(
    source: Readable, origin: str, target: Path, expected: int | None, progress: Progress
) -> str:
    """Write all of `source` to the new file `target`; return its digest, "sha256:...".

    Raises SystemFault when fewer bytes come than `expected`, when they cannot be read, and when
    the disk is full.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with target.open("xb") as file:
            while chunk := _read(source, origin, size, expected):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                progress.at(size)
            file.flush()
            os.fsync(file.fileno())  # a full disk or quota may show only now
    except OSError as error:
        raise disk_space.fault(target, error) from None
    if expected is not None and size != expected:
        raise _cut(origin, size, expected, "the connection ended")
    return f"sha256:{digest.hexdigest()}"


def _read(source: Readable, origin: str, size: int, expected: int | None) -> bytes:
    try:
        return source.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _cut(origin, size, expected, str(error) or type(error).__name__) from None


def _cut(origin: str, size: int, expected: int | None, why: str) -> SystemFault:
    of = f" of {disk_space.shown(expected)}" if expected is not None else ""
    return SystemFault(
        f"{origin} stopped in the middle",
        f"after {disk_space.shown(size)}{of}: {why}",
        "run it again",
    )


def digest_of(path: Path, name: str, progress: Progress) -> str:
    """Return the digest of a file, "sha256:..."; raise SystemFault when it cannot be read.

    `name` is what people call it.
    """
    try:
        progress.begin(f"computing the digest of {name}", path.stat().st_size)
        return f"sha256:{sha256(path, progress=progress.at)}"
    except OSError as error:
        raise SystemFault(f"cannot read {path}", str(error)) from None
