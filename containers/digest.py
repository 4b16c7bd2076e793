"""SHA-256 of files; keys, which name a result by the content of all that decides what it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

BLOCK = 1 << 20


def sha256(file: Path, progress: Callable[[int], None] | None = None) -> str:
    """The digest of a file (hashlib.file_digest needs Python 3.11). Raises OSError.

    `progress` is called with the number of bytes read so far.
    """
    found, read = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
            read += len(block)
            if progress:
                progress(read)
    return found.hexdigest()


def key(**inputs: str) -> str:
    """16 hexadecimal digits that change when any input changes, its name included."""
    text = json.dumps(inputs, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def of_files(files: Iterable[Path], base: Path) -> str:
    """One key over names (relative to `base`) and contents."""
    digests = {str(f.relative_to(base)): sha256(f) for f in files}
    return key(**digests)
