"""Folders of this user below a shared one, such as /tmp, each with a lock.

A process that works in such a folder holds its lock, and the kernel releases it however that
process ends: a folder whose lock is free is no longer in use. This runs with Python 3.6, which a
node's own may be.
"""

import contextlib
import fcntl
import os
import shutil
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ATTEMPTS = 20
SECONDS_BETWEEN = 0.1


class Foreign(OSError):
    """The folder is another user's, or open to other users."""


def open_own(folder: "str", any_mode: "bool" = False) -> "int":
    """Return the open folder. Raises Foreign, and FileNotFoundError where there is none.

    With `any_mode` other users may enter it: a process that outlived its job has made it again.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Foreign(str(error.strerror)) from None
    status = os.fstat(opened)
    if status.st_uid != os.getuid() or not (any_mode or status.st_mode & 0o777 == 0o700):
        os.close(opened)
        raise Foreign(f"user {status.st_uid}, mode {status.st_mode & 0o777:o}")
    return opened


def locks(opened: "int", how: "int") -> "bool":
    """Take the lock; return whether it was free."""
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_name(folder: "str", opened: "int") -> "bool":
    """Return whether the open folder still has this name."""
    try:
        return os.path.samestat(os.fstat(opened), os.lstat(folder))
    except FileNotFoundError:
        return False


def locked(folder: "str", how: "int") -> "int | None":
    """Return the open folder with its lock, None where another job of this user has removed it."""
    with contextlib.suppress(FileNotFoundError):
        opened = open_own(folder)
        fcntl.flock(opened, how)
        if has_name(folder, opened):
            return opened
        os.close(opened)
    return None


def left_in(
    root: "str", is_ours: "Callable[[str], object]", any_mode: "bool" = False
) -> "Iterator[str]":
    """Yield the folders of this user in `root` that are no longer in use, each locked."""
    try:
        names = os.listdir(root)
    except OSError:
        return  # a folder may be writable and not readable
    for folder in (os.path.join(root, name) for name in names if is_ours(name)):
        try:
            opened = open_own(folder, any_mode)
        except OSError:
            continue  # another user's, or removed meanwhile
        if locks(opened, fcntl.LOCK_EX) and has_name(folder, opened):
            yield folder
        os.close(opened)


def remove(folder: "str") -> "bool":
    """Remove the tree; return whether all is gone. Another process may still write there."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, onerror=_writable)
        if not os.path.lexists(folder):
            return True
        time.sleep(SECONDS_BETWEEN)
    return False


def _writable(action: "object", path: "str", error: "object") -> None:
    """Make a folder writable for the next attempt: images have some that their owner may not."""
    for folder in (os.path.dirname(path), path):
        if os.path.isdir(folder) and not os.path.islink(folder):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
