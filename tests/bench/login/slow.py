"""A folder seen through a wait: each question to it takes so long, as on a busy shared file system.

    python3 slow.py MODULES FOLDER MOUNTPOINT SECONDS [BYTES_PER_SECOND QUEUE]

FUSE with mfusepy, which lies in the folder MODULES. Looking a name up, listing, opening and reading
(128 KiB at a time) wait; what the kernel has looked up it keeps for `KEPT` seconds, as NFS does.
All mounts with one file QUEUE are one server's: they share its bytes per second, and the file says
how many bytes it has sent. Ends when it is unmounted.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import struct
import sys
import time
from typing import Any

KEPT = 30
STATE = struct.Struct("<dQ")  # of a queue: when the server is free again, bytes sent so far


def facts(found: os.stat_result) -> dict[str, Any]:
    """Return what stat(2) says in the words of FUSE, times in nanoseconds."""
    names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
    times = {name: getattr(found, name + "_ns") for name in ("st_mtime", "st_ctime")}
    return {**{name: getattr(found, name) for name in names}, **times}


class Queue:
    """What all nodes ask of one server is sent one after the other, first come first served."""

    def __init__(self, path: str, rate: float) -> None:
        self.path, self.rate = path, rate

    def wait(self, size: int) -> None:
        """Wait until so many bytes have been sent."""
        with open(self.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            free, sent = STATE.unpack(file.read(STATE.size))
            free = max(free, time.time()) + size / self.rate
            file.seek(0)
            file.write(STATE.pack(free, sent + size))
            file.flush()
        time.sleep(max(0.0, free - time.time()))


def begin(path: str) -> None:
    """Begin a queue in which nothing was sent yet."""
    with open(path, "wb") as file:
        file.write(STATE.pack(0.0, 0))


def sent(path: str) -> int:
    """Return how many bytes the server of a queue has sent."""
    with open(path, "rb") as file:
        found: int = STATE.unpack(file.read(STATE.size))[1]
    return found


def operations(fuse: Any, root: str, wait: float, queue: Queue | None) -> Any:
    """Return the file system: each method is one question to the server."""

    class Slow(fuse.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            time.sleep(wait)
            try:
                return facts(os.lstat(root + path))
            except OSError as error:
                raise fuse.FuseOSError(error.errno or errno.EIO) from None

        def readdir(self, path: str, fh: int) -> list[Any]:
            """The kinds come along with the names, as on real file systems."""
            time.sleep(wait)
            with os.scandir(root + path) as entries:
                return [".", "..", *((e.name, facts(e.stat()), 0) for e in entries)]

        def open(self, path: str, flags: int) -> int:
            time.sleep(wait)
            return os.open(root + path, flags)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            time.sleep(wait)
            found = os.pread(fh, size, offset)
            if queue:
                queue.wait(len(found))
            return found

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

    return Slow()


def main() -> None:
    """Command line."""
    modules, folder, mountpoint, wait, *shared = sys.argv[1:]
    queue = Queue(shared[1], float(shared[0])) if shared else None
    sys.path.insert(0, modules)
    mfusepy = importlib.import_module("mfusepy")

    kept = {"attr_timeout": KEPT, "entry_timeout": KEPT, "ro": True}
    served = operations(mfusepy, os.path.realpath(folder), float(wait), queue)
    mfusepy.FUSE(served, mountpoint, foreground=True, **kept)


if __name__ == "__main__":
    main()
