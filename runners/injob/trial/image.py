"""This node's own view of the image file: is it the same that the other nodes run?"""

from __future__ import annotations

import hashlib
import os
from typing import Any

WHOLE = 64 * 2**20  # up to this size every byte is read; above it, samples
SAMPLES, SAMPLE = 64, 64 * 1024
# A SIF's header and its table of 48 descriptors of 585 bytes lie before this (SIF specification).
TABLE = 32 * 1024


def view(path: str) -> dict[str, Any]:
    """Return what this node sees of the file: device, inode, size, time and a digest, and of what.

    A folder has no digest, nor has what cannot be read: then `problem` says why.
    """
    try:
        facts = os.stat(path)
        seen: dict[str, Any] = {
            "path": path,
            "device": facts.st_dev,
            "inode": facts.st_ino,
            "size": facts.st_size,
            "mtime": facts.st_mtime,
        }
        if os.path.isdir(path):
            return {**seen, "problem": "a folder has no digest"}
        digest, of = _digest(path, facts.st_size)
        return {**seen, "sha256": digest, "of": of}
    except OSError as error:
        return {"path": path, "problem": str(error)}


def _digest(path: str, size: int) -> tuple[str, str]:
    """Digest every byte, or the header with its table and samples at equal distances to the end."""
    with open(path, "rb") as file:
        if size <= WHOLE:
            return hashlib.sha256(file.read()).hexdigest(), "every byte"
        digest = hashlib.sha256(file.read(TABLE))
        for number in range(1, SAMPLES + 1):
            file.seek(max(0, size * number // SAMPLES - SAMPLE))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest(), f"header, table and {SAMPLES} samples of {SAMPLE // 1024} KiB"
