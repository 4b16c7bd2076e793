"""Programs that stand in for real ones; a Python environment in place of an image."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

# Words that a shell, Slurm or a runtime would take for more than text.
HOSTILE = [
    *("a b", "it's", '"', "$HOME", "$(id)", "`id`", "x;y", "1,2:3=4", "new\nline", "é☃", "*"),
    *("-dash", "\\n", "\\", ""),
]


def program(path: Path, *lines: str) -> Path:
    """Write a program, of the shell unless its first line names another; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = [] if lines[0].startswith("#!") else ["#!/bin/sh"]
    path.write_text("\n".join((*first, *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


def sandbox(path: Path, labels: Mapping[str, str]) -> Path:
    """Make a folder look like an unpacked image with these labels; return its path."""
    file = path / ".singularity.d" / "labels.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(dict(labels)), encoding="utf-8")
    return path


def environment(path: Path) -> Path:
    """Make a folder look like the environment of the Python that runs; return its path."""
    own = Path(sys.executable).resolve()
    (path / "bin").mkdir(parents=True)
    (path / "bin/python").symlink_to(own)
    (path / "pyvenv.cfg").write_text(f"home = {own.parent}\n", encoding="utf-8")
    return path
