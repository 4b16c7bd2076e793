"""Keeps the folder of intermediate results from growing for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from . import process

DAYS = 30
KINDS = ("base-", "horovod-", "environment-")  # others' files in the folder are left alone


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
