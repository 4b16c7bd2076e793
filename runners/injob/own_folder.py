"""Folders of this user's own below one that is everybody's, such as /tmp, each with a lock.

Who works in one holds its lock, and the kernel releases it however that process ends: a folder
whose lock is free belongs to nobody any more. Python 3.6, for what runs on a node's own.
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
    """It is not a folder of this user's own, for him alone."""


def open_own(folder: "str", any_mode: "bool" = False) -> "int":
    """Return the open folder. Raises Foreign, and FileNotFoundError where there is none.

    With `any_mode` others may enter it: a process that outlived one has made it again.
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
    """Return the open folder with its lock; None where a sweep of the same user came before."""
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
    """Yield the folders of this user in `root` that belong to nobody any more, each locked."""
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
    """Remove the tree; return whether nothing stays, such as what another process writes there."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, onerror=_writable)
        if not os.path.lexists(folder):
            return True
        time.sleep(SECONDS_BETWEEN)
    return False


def _writable(action: "object", path: "str", error: "object") -> None:
    """Let the next attempt in: images have folders that their owner may not write in."""
    for each in (os.path.dirname(path), path):
        if os.path.isdir(each) and not os.path.islink(each):
            with contextlib.suppress(OSError):
                os.chmod(each, 0o700)
