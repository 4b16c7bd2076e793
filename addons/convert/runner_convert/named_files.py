"""The files that a user names: read and written whole, with errors that name them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from runners.core import atomic
from runners.core.errors import UsageError


def read(path: Path) -> str:
    """Return the text of a file that the user named; raise UsageError for one that is none."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text", str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}", str(error.strerror)) from None
    if "\0" in text:
        raise UsageError(f"{path} is not text", "it has bytes that are 0")
    return text


def write(path: Path, text: str) -> None:
    """Write a file that the user named; raise UsageError where it cannot be written."""
    try:
        atomic.write_text(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}", str(error)) from None


def of_stdout() -> Path | None:
    """Return the file that the shell has made of stdout by `> FILE`; None for anything else."""
    try:
        number = sys.stdout.fileno()
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        regular = stat.S_ISREG(os.fstat(number).st_mode) and path.exists()
    except OSError:  # no descriptor, or no /proc
        return None
    here = Path.cwd()
    return (path.relative_to(here) if here in path.parents else path) if regular else None
