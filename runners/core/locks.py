"""File locks between processes, on all machines that share the file system.

flock(2) reaches across machines on NFS (Linux 2.6.12 and newer, as a byte-range lock), GPFS, and on
Lustre and BeeGFS when they are mounted for it. Mounted with node-local locks only, two login nodes
may download the same image twice; the files stay right, since each download has a folder of its own
and gets its name by one rename.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from . import disk_space
from .errors import Refused, SystemFault
from .progress import Progress

NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


@contextmanager
def exclusive(path: Path, progress: Progress, busy: str) -> Iterator[None]:
    """Hold the lock file `path`, waiting for its holder; without locks, go on.

    `busy` says of another process what it does meanwhile, such as "pulls the same image".
    """
    with _opened(path) as file:
        if not _taken(file, fcntl.LOCK_EX):
            progress.say(f"waiting for {_holder(file)}, which {busy}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _sign(file)
        yield


@contextmanager
def shared(path: Path, progress: Progress) -> Iterator[None]:
    """Hold `path` beside others who do the same, and against an `exclusive` one."""
    with _opened(path) as file:
        if not _taken(file, fcntl.LOCK_SH):
            progress.say("waiting for `runner images prune`")
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def try_exclusive(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file `path` at once; raise Refused, saying `busy`, where somebody has it."""
    with _opened(path) as file:
        if not _taken(file, fcntl.LOCK_EX):
            raise Refused(
                busy, f"{_holder(file)} has {path}", "again when it has ended", id="lock-held"
            )
        _sign(file)
        yield
        file.truncate(0)  # those who hold it together do not say who they are


def _opened(path: Path) -> IO[str]:
    """Open the file; who may read it may lock it, so only those may who write in its folder."""
    with disk_space.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        writers = path.parent.stat().st_mode & 0o022
        # The holder writes into the file, which a link would make another one.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        number = os.open(path, flags, 0o600 | writers | writers << 1)
        return os.fdopen(number, "a+", encoding="utf-8")


def _taken(file: IO[str], kind: int) -> bool:
    """Try to take the lock; True too where the file system has none to give."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise SystemFault(
                f"cannot lock {file.name}", str(error.strerror), id="lock-impossible"
            ) from None
    return True


def _sign(file: IO[str]) -> None:
    file.truncate(0)
    file.write(f"process {os.getpid()} on {os.uname().nodename}")
    file.flush()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read(200) or "another process"
