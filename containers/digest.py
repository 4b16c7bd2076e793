"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

BLOCK = 1 << 20


def sha256(
    file: Path,
    offset: int = 0,
    size: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """The digest of a file, or of `size` bytes of it (hashlib.file_digest needs Python 3.11).

    `progress` is called with the number of bytes read so far. Raises OSError.
    """
    found, read = hashlib.sha256(), 0
    with file.open("rb") as stream:
        stream.seek(offset)
        while block := stream.read(BLOCK if size is None else min(BLOCK, size - read)):
            found.update(block)
            read += len(block)
            if progress:
                progress(read)
    return found.hexdigest()
