"""The folders in which this user has runs, so that these are found from anywhere."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOST = 50


def _list() -> Path:
    """Return the file, with one path a line (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base, "runner", "runs-folders")


def known() -> list[Path]:
    """Return the folders that are still there, the one used last at the end."""
    try:
        lines = _list().read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [Path(line) for line in lines if os.path.isdir(line)]


def remember(folder: Path) -> None:
    """Note a folder; where the home has no room its runs are not found from elsewhere."""
    if "\n" in str(folder) or folder in known()[-1:]:
        return
    lines = [str(each) for each in known() if each != folder][1 - MOST :]
    with contextlib.suppress(OSError):
        _list().parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in (*lines, folder))
        _list().write_text(text, encoding="utf-8", errors="surrogateescape")


def others(than: Path) -> list[Path]:
    """Return the folders but for one, the one used last first."""
    return [each for each in reversed(known()) if each != than]
