"""Files that are whole or not there: JSON written by rename, and what is in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from containers import atomic

from .errors import SystemFault


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, nothing if it does not exist."""
    return list(folder.iterdir()) if folder.is_dir() else []


def read_json(path: Path) -> Any:
    """Return a JSON file's content, None when it does not exist."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SystemFault(f"cannot read {path}", str(error)) from None


def write_json(path: Path, value: Any, private: bool = False) -> None:
    """Write by rename, so that nobody reads half a file; `private` is for its owner alone."""
    atomic.write_text(path, json.dumps(value, indent=2) + "\n", private)
