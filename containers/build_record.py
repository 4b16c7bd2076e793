"""The note beside an image that says what it was built from, so that `make` can do nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from . import atomic


@dataclass(frozen=True)
class Record:
    """Key of a finished image, its digest, and the file they were written for."""

    key: str
    digest: str = ""  # sha256:... of the file
    size: int = 0  # bytes
    modified: int = 0  # nanoseconds since the epoch


def path(image: Path) -> Path:
    """Where the note of `image` lies."""
    return image.with_name(f".{image.name}.json")


def write(image: Path, key: str, digest: str = "") -> None:
    """Note what `image`, which is complete, was built from."""
    stat = image.stat()
    record = Record(key, digest, stat.st_size, stat.st_mtime_ns)
    atomic.write_text(path(image), json.dumps(asdict(record)))


def read(image: Path) -> Record | None:
    """The note of `image`; None when there is none or the image was replaced since."""
    try:
        record = Record(**json.loads(path(image).read_text(encoding="utf-8")))
        stat = image.stat()
    except (FileNotFoundError, ValueError, TypeError):
        return None
    same = (record.size, record.modified) == (stat.st_size, stat.st_mtime_ns)
    return record if same else None


def is_current(image: Path, key: str) -> bool:
    """Whether `image` is there, built from exactly the inputs of `key`."""
    present = read(image)
    return present is not None and present.key == key
