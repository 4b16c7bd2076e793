"""A folder seen through a wait: each question to it takes so long, as on a busy shared file system.

    python3 slow.py MODULES FOLDER MOUNTPOINT SECONDS

FUSE with mfusepy, which lies in the folder MODULES. Looking a name up, listing, opening and reading
(128 KiB at a time) wait; what the kernel has looked up it keeps for `KEPT` seconds, as NFS does.
Ends when it is unmounted.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import time
from typing import Any

KEPT = 30


def facts(found: os.stat_result) -> dict[str, Any]:
    """Return what stat(2) says in the words of FUSE, times in nanoseconds."""
    names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
    times = {name: getattr(found, name + "_ns") for name in ("st_mtime", "st_ctime")}
    return {**{name: getattr(found, name) for name in names}, **times}


def operations(fuse: Any, root: str, wait: float) -> Any:
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
            return os.pread(fh, size, offset)

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

    return Slow()


def main() -> None:
    """Command line."""
    modules, folder, mountpoint, wait = sys.argv[1:]
    sys.path.insert(0, modules)
    mfusepy = importlib.import_module("mfusepy")

    kept = {"attr_timeout": KEPT, "entry_timeout": KEPT, "ro": True}
    served = operations(mfusepy, os.path.realpath(folder), float(wait))
    mfusepy.FUSE(served, mountpoint, foreground=True, **kept)


if __name__ == "__main__":
    main()
