"""Makes the job's folder on a node, holds it as long as the job lives, and removes it.

Its commands run outside of any container:

hold image|data [ENTRY FILE OFFSET RUNTIME]
mounted ENTRY
room ENTRY SOURCE
copy ENTRY SOURCE
verify ENTRY SHA256
unpack ENTRY OFFSET NEW_ENTRY

The first line of the input is the folder. All users of a node can read arguments, and a user who
knew the name early could make a folder of that name: all users share its parent, such as /tmp. So
its name is random, only its owner may enter it, and each use checks that it is still that folder.

The process that will remove it holds a lock on it, and the kernel releases the lock however that
process ends. So a folder whose lock is free belongs to no job any more, and the next job of the
same user removes it.
"""

import contextlib
import fcntl
import grp
import os
import pwd
import re
import signal
import stat
import time
from collections.abc import Iterator
from typing import Callable

from ...contract.exit_codes import EXIT_NOT_STAGED
from ...contract.log_text import human_size
from .. import own_folder
from . import image, node
from .node import DATA, IMAGE, NotStaged, kind, record_failure, say

PREFIX = f"runner-{os.getuid()}-"
NAME = re.compile(PREFIX + r"[^/]*\.[0-9a-f]{32}")
TRUSTED = (0, os.getuid())
SECONDS_TO_APPEAR = 60.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def hold(folder: "str", *mounted: "str") -> None:
    """Make the folder, wait for the end of input, remove the folder. Raises NotStaged.

    With `mounted`, the arguments of image.mount, that image is mounted meanwhile.

    Signals are for the ranks, which may need the data to save and stop: the input ends after them,
    with the script, also of a job that is cancelled or preempted.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    check_parent(folder)
    _warn_of_group(os.path.dirname(folder))
    sweep(os.path.dirname(folder))
    lock = _make(folder)
    if mounted:
        image.mount(folder, *mounted)
    while os.read(0, 4096):
        pass
    _remove(folder)
    os.close(lock)


def check_parent(folder: "str") -> None:
    """Raise NotStaged where another user could put another folder in the place of this one."""
    root = os.path.dirname(folder)
    if not NAME.fullmatch(os.path.basename(folder)):
        raise NotStaged(f"the name {folder} is not random")
    if not os.access(root, os.W_OK | os.X_OK):
        raise NotStaged(f"{root} is not a writable folder")
    path = os.path.realpath(root)
    while True:
        status = os.stat(path)
        if status.st_uid not in TRUSTED:
            raise _unsafe(root, f"{path} belongs to user {status.st_uid}")
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            raise _unsafe(root, f"{path} is writable by everybody and has no sticky bit")
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def _warn_of_group(root: "str") -> None:
    """Warn where the members of a group could; a group with the user's own name has no others."""
    status = os.stat(root)
    if not status.st_mode & stat.S_IWGRP or status.st_mode & stat.S_ISVTX or not status.st_gid:
        return
    try:
        name, own = grp.getgrgid(status.st_gid).gr_name, pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name, own = str(status.st_gid), ""
    if name != own:
        say(DATA, f"the group {name} may write in {root}: its members could replace what is staged")


def _unsafe(root: "str", why: "str") -> "NotStaged":
    return NotStaged(f"other users could replace what is staged in {root}: {why}")


def sweep(root: "str") -> None:
    """Remove the folders that ended jobs of this user have left in `root`."""
    for folder in own_folder.left_in(root, NAME.fullmatch):
        _remove(folder)
        say(DATA, f"removed {folder}, left by a job that was killed")


def wait_for(folder: "str") -> None:
    """Wait until `hold` has made the folder and holds it; raise NotStaged when it does not."""
    check_parent(folder)
    deadline = time.time() + SECONDS_TO_APPEAR
    while not _held(folder):
        if time.time() > deadline:
            raise NotStaged(f"{folder} was not created")
        time.sleep(0.05)


def _make(folder: "str") -> "int":
    """Make and lock the folder; again if another job of this user removed it in between."""
    while True:
        try:
            os.mkdir(folder, 0o700)
        except OSError as error:
            raise NotStaged(f"cannot create {folder}: {error.strerror}") from None
        with _ours(folder):
            lock = own_folder.locked(folder, fcntl.LOCK_EX)
        if lock is not None:
            return lock


@contextlib.contextmanager
def _ours(folder: "str") -> "Iterator[None]":
    """Raise NotStaged where the folder is another user's."""
    try:
        yield
    except own_folder.Foreign as error:
        raise NotStaged(f"{folder} is not the folder that this job made: {error}") from None


def _held(folder: "str") -> "bool":
    try:
        with _ours(folder):
            opened = own_folder.open_own(folder)
    except FileNotFoundError:
        return False
    try:
        return not own_folder.locks(opened, fcntl.LOCK_SH)
    finally:
        os.close(opened)


def _remove(folder: "str") -> None:
    """Remove the tree; say so if something stays, such as a file that another process writes."""
    image.unmount(folder)
    if not own_folder.remove(folder):
        say(DATA, f"cannot remove {folder}")


def main(argv: "list[str]") -> "int":
    """Run a command; return 0, or 92 where it is impossible here, or 81 where it is not allowed."""
    command, *rest = argv
    what = rest.pop(0) if command == "hold" else kind(rest[0])
    folder = _line()
    try:
        if command != "hold":
            wait_for(folder)
        COMMANDS[command](folder, *rest)
    except (NotStaged, OSError) as error:
        code = error.code if isinstance(error, NotStaged) else EXIT_NOT_STAGED
        record_failure(what, str(error), code)
        return code
    return 0


def _line() -> "str":
    """Return the first line of the input, and leave the rest unread."""
    return os.fsdecode(b"".join(iter(lambda: os.read(0, 1).rstrip(b"\n"), b"")))


def _room(folder: "str", entry: "str", source: "str") -> None:
    node.require_room(os.path.join(folder, entry), [os.stat(source).st_size])


def _copy(folder: "str", entry: "str", source: "str") -> None:
    began = time.time()
    files, size, sent = node.copy(folder, entry, source)
    name = "" if kind(entry) == IMAGE else f"{entry}, "
    how = f"sent, {human_size(size)}" if sent else _told(files, size, began)
    say(kind(entry), name + how)


def _unpack(folder: "str", entry: "str", offset: "str", target: "str") -> None:
    began = time.time()
    packed, unpacked = (os.path.join(folder, name) for name in (entry, target))
    files, size = image.unpack(packed, offset, unpacked)
    say(kind(entry), "unpacked, " + _told(files, size, began))


def _told(files: "int", size: "int", began: "float") -> "str":
    many = "" if files == 1 else f" in {files} files"
    return f"{human_size(size)}{many}, {time.time() - began:.1f} s"


COMMANDS: "dict[str, Callable[..., None]]" = {
    "hold": hold,
    "mounted": image.wait_for_mount,
    "room": _room,
    "copy": _copy,
    "verify": image.verify,
    "unpack": _unpack,
}
