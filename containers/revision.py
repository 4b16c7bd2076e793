"""The project's version, and the commit that last changed what an image is made of."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path


def version(checkout: Path) -> str:
    """The version in pyproject.toml, read without a TOML parser (Python 3.9 has none).

    Where the project is installed, there is no such file but the installed package's own version.
    """
    project = checkout / "pyproject.toml"
    if not project.is_file():
        return importlib.metadata.version("horovod-runner")
    match = re.search(r'^version\s*=\s*"([^"]+)"', project.read_text("utf-8"), re.MULTILINE)
    return match[1] if match else "unknown"


def revision(checkout: Path, paths: Sequence[str]) -> str:
    """Short commit of the last change to `paths`, `-dirty` when they differ now."""
    commit = _git(checkout, "log", "-1", "--format=%h", "--", *paths)
    if not commit:
        return "unknown"
    return commit + ("-dirty" if _git(checkout, "status", "--porcelain", "--", *paths) else "")


def date(checkout: Path, paths: Sequence[str]) -> int | None:
    """When `paths` last changed, in seconds since 1970; None where that is not known."""
    text = _git(checkout, "log", "-1", "--format=%ct", "--", *paths)
    return int(text) if text else None


def _git(checkout: Path, *arguments: str) -> str:
    """Output of git; empty where there is no git or no repository (a release archive)."""
    if not (checkout / ".git").exists():
        return ""  # a repository further up would be another project's
    command = ["git", "-C", str(checkout), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
