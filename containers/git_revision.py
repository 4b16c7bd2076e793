"""The project's version, and the commit that last changed what an image is made of."""

from __future__ import annotations

import datetime
import importlib.metadata
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Revision:
    """Where the project's files come from: for the labels of the image."""

    version: str
    commit: str
    date: int  # of the commit, seconds since 1970

    @property
    def dirty(self) -> bool:
        """Whether the files differ from the commit."""
        return self.commit.endswith("-dirty")

    def labels(self) -> dict[str, str]:
        """Labels of the Open Container Initiative (image-spec, annotations)."""
        made = datetime.datetime.fromtimestamp(self.date, datetime.timezone.utc)
        return {
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def find(checkout: Path, paths: Sequence[str], default_date: int, given: str = "") -> Revision:
    """The revision of `paths`; `given` is `COMMIT DATE` of who can ask the repository."""
    if given:
        name, date_of = given.split()
        return Revision(version(checkout), name, int(date_of))
    found = date(checkout, paths) or default_date
    return Revision(version(checkout), commit(checkout, paths), found)


def version(checkout: Path) -> str:
    """The version in pyproject.toml, read without a TOML parser (Python 3.9 has none).

    Where the project is installed, there is no such file but the installed package's own version.
    """
    project = checkout / "pyproject.toml"
    if not project.is_file():
        return importlib.metadata.version("horovod-runner")
    match = re.search(r'^version\s*=\s*"([^"]+)"', project.read_text("utf-8"), re.MULTILINE)
    return match[1] if match else "unknown"


def commit(checkout: Path, paths: Sequence[str]) -> str:
    """Short commit of the last change to `paths`, `-dirty` when they differ now."""
    found = _git(checkout, "log", "-1", "--format=%h", "--", *paths)
    if not found:
        return "unknown"
    return found + ("-dirty" if _git(checkout, "status", "--porcelain", "--", *paths) else "")


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
