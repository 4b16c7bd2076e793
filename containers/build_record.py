"""Build records: the note beside an image of what it was built from, and results that are kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.core import atomic

from . import process

DAYS = 30
KINDS = ("base-", "horovod-", "environment-")  # others' files in the folder are left alone


@dataclass(frozen=True)
class BuildRecord:
    """Key of a finished image, its digest, and the file they were written for."""

    key: str
    digest: str = ""  # sha256:... of the file
    size: int = 0  # bytes
    modified: int = 0  # nanoseconds since the epoch
    level: int = 0  # of zstd, that a packaged image is packed with


def path(image: Path) -> Path:
    return image.with_name(f".{image.name}.json")


def write(image: Path, key: str, digest: str = "", level: int = 0) -> None:
    """Note what `image`, which is complete, was built from."""
    stat = image.stat()
    record = BuildRecord(key, digest, stat.st_size, stat.st_mtime_ns, level)
    atomic.write_text(path(image), json.dumps(asdict(record)))


def _noted(image: Path) -> BuildRecord | None:
    try:
        return BuildRecord(**json.loads(path(image).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def read(image: Path) -> BuildRecord | None:
    """The note of `image`; None when there is none or the image was replaced since."""
    record = _noted(image)
    if record is None or not image.exists():
        return None
    stat = image.stat()
    return record if (record.size, record.modified) == (stat.st_size, stat.st_mtime_ns) else None


def digest(image: Path) -> str:
    """The digest that was noted for a file of this name, whatever is there now; "" without one."""
    record = _noted(image)
    return str(record.digest) if record else ""


def is_current(image: Path, key: str, level: int | None = None) -> bool:
    """Whether `image` is there, built from exactly the inputs of `key`; packed with any `level`."""
    present = read(image)
    return present is not None and present.key == key and level in (None, present.level)


def forget(folder: Path, used: Iterable[Path]) -> list[Path]:
    """Mark `used` as used now, then remove what no build has used for 30 days."""
    now = time.time()
    for path in used:
        if path.exists():
            os.utime(path)
    old = [
        path
        for path in folder.glob("*")
        if path.name.lstrip(".").startswith(KINDS) and now - path.stat().st_mtime > DAYS * 86400
    ]
    for path in old:
        process.remove(path) if path.is_dir() else path.unlink()
    return old
