"""A file system in memory on which a user may write so many bytes: more ends with EDQUOT.

    python3 limited.py MODULES MOUNTPOINT BYTES

FUSE with mfusepy, which lies in the folder MODULES. Ends when it is unmounted.
"""

from __future__ import annotations

import errno
import importlib
import os
import stat
import sys
from typing import Any


def operations(fuse: Any, limit: int) -> Any:
    """Return the file system: a folder of files."""

    class Limited(fuse.Operations):  # type: ignore[misc]
        def __init__(self) -> None:
            self.files: dict[str, bytes] = {}

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o777, "st_nlink": 2, "st_uid": os.getuid()}
            if path not in self.files:
                raise fuse.FuseOSError(errno.ENOENT)
            mode = {"st_mode": stat.S_IFREG | 0o666, "st_nlink": 1, "st_uid": os.getuid()}
            return {**mode, "st_size": len(self.files[path])}

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", *(name[1:] for name in self.files)]

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            self.files[path] = b""
            return 0

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            self.files[path] = self.files[path][:length]
            return 0

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            if offset + len(data) > limit:
                raise fuse.FuseOSError(errno.EDQUOT)
            self.files[path] = self.files[path][:offset] + data
            return len(data)

    return Limited()


def main() -> None:
    """Command line."""
    modules, mountpoint, limit = sys.argv[1:]
    sys.path.insert(0, modules)
    mfusepy = importlib.import_module("mfusepy")
    mfusepy.FUSE(operations(mfusepy, int(limit)), mountpoint, foreground=True)


if __name__ == "__main__":
    main()
