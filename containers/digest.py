"""Digests of files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(file: Path) -> str:
    """The digest of a large file (hashlib.file_digest needs Python 3.11)."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
