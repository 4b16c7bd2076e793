"""The note beside an image that says what it was built from, so that `make` can do nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


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


def write(image: Path, record: Record) -> None:
    """Note what `image`, which is complete, was built from."""
    stat = image.stat()
    content = {**asdict(record), "size": stat.st_size, "modified": stat.st_mtime_ns}
    part = path(image).with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, path(image))


def read(image: Path) -> Record | None:
    """The note of `image`; None when there is none or the image was replaced since."""
    try:
        record = Record(**json.loads(path(image).read_text(encoding="utf-8")))
        stat = image.stat()
    except (FileNotFoundError, ValueError, TypeError):
        return None
    same = (record.size, record.modified) == (stat.st_size, stat.st_mtime_ns)
    return record if same else None
