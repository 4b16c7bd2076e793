"""Programs that stand in for real ones."""

from __future__ import annotations

from pathlib import Path


def program(path: Path, *lines: str) -> Path:
    """Write a program, of the shell unless its first line names another; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = [] if lines[0].startswith("#!") else ["#!/bin/sh"]
    path.write_text("\n".join((*first, *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path
