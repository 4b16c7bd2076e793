"""What the first bytes of a squashfs file say. Standard library; nothing is mounted.

The superblock of squashfs 4.0, little-endian (Linux, Documentation/filesystems/squashfs.rst and
fs/squashfs/squashfs_fs.h): magic, inodes, time, block size, fragments, compression, ..., and at 40
the bytes that are used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import Refused

MAGIC = b"hsqs"
ENDINGS = (".sqsh", ".squashfs", ".sqfs")
COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
SUPERBLOCK = struct.Struct("<4sIIIIHHHHHHQQ")


@dataclass(frozen=True)
class Squashfs:
    """Files and folders together, size in bytes of the file system, and how it is compressed."""

    inodes: int
    size: int
    compression: str


def read(path: Path) -> Squashfs:
    """Return what a squashfs file says of itself; raise Refused for another or a cut one."""
    try:
        with path.open("rb") as file:
            head = file.read(SUPERBLOCK.size)
        there = path.stat().st_size
    except OSError as error:
        raise Refused(f"cannot read {path}", str(error.strerror)) from None
    if head[:4] != MAGIC:
        found = head[:4].hex(" ") or "nothing"
        raise Refused(
            f"{path} is not a squashfs file",
            f"it begins with {found}, not with {MAGIC.hex(' ')} (hsqs)",
            "runner data pack DIR",
        )
    if len(head) < SUPERBLOCK.size:
        raise Refused(f"{path} is cut short", f"it has {there} bytes", "copy it again")
    fields = SUPERBLOCK.unpack(head)
    size = int(fields[12])
    if there < size:
        raise Refused(f"{path} is cut short", f"{there} of {size} bytes are there", "copy it again")
    return Squashfs(int(fields[1]), size, COMPRESSIONS.get(fields[5], "unknown"))
