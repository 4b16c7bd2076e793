"""Atomic writes: a file or folder is written under another name, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its name when the block ends without an error.

    Its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _part_of(path) as part:
        yield part


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    # Two commands, or threads of one, may write the same at once: the last one wins. In a shared
    # folder nobody can have put a link under a name that he cannot guess.
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)  # once it is renamed, the name may be another thread's
        raise


@contextmanager
def new_folder(path: Path, mode: int = 0o755) -> Iterator[Path]:
    """The same of a folder that was not there, or is empty; the umask takes from its `mode`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    part.mkdir(mode)
    try:
        yield part
        os.rename(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str, private: bool = False) -> None:
    """Replace the text of a file in one step, in a folder that must be there.

    A `private` one is for its owner alone; no other can be written by others, whatever the umask.
    """
    with _part_of(path) as part:
        part.touch(mode=0o600 if private else 0o644)
        part.write_text(text, encoding="utf-8")
