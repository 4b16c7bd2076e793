"""Keys: a result is named by the content of everything that decides what is in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from . import digest


def key(**inputs: str) -> str:
    """16 hexadecimal digits that change when any input changes, its name included."""
    text = json.dumps(inputs, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def of_files(files: Iterable[Path], base: Path) -> str:
    """One key over names (relative to `base`) and contents."""
    digests = {str(f.relative_to(base)): digest.sha256(f) for f in files}
    return key(**digests)
