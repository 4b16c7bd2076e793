"""Opens files in an untrusted folder, such as an unpacked image.

Each step on the way is opened from the one before and through no link (openat(2), O_NOFOLLOW): a
link there means a place in the image, and would lead to one on this machine.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def folder(root: Path, name: str = "") -> Iterator[int]:
    """Yield the descriptor of a folder below `root`, for `dir_fd`; raise OSError for a link."""
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/"):
        raise OSError(errno.EXDEV, "it leads out of the folder", name)
    here = os.open(root, STEP)
    try:
        for part in parts:
            step = os.open(part, STEP, dir_fd=here)
            os.close(here)
            here = step
        yield here
    finally:
        os.close(here)


def open_file(root: Path, name: str) -> BinaryIO:
    """Return a plain file below `root`, open for reading; raise OSError for a link or a pipe."""
    path = PurePosixPath(name)
    with folder(root, str(path.parent)) as parent:
        # A pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(path.name, flags, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", name)
    return open(file, "rb")


def names(root: Path, name: str = "") -> list[str]:
    """Return what is in a folder below `root`, sorted; raise OSError for a link."""
    with folder(root, name) as here:
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        try:
            return sorted(os.listdir(opened))
        finally:
            os.close(opened)


def is_folder(root: Path, name: str) -> bool:
    """Whether there is a folder, and no link to one."""
    path = PurePosixPath(name)
    try:
        with folder(root, str(path.parent)) as parent:
            return stat.S_ISDIR(os.lstat(path.name, dir_fd=parent).st_mode)
    except OSError:
        return False
