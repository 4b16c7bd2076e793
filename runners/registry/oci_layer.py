"""Layers of an OCI image: a tree's files as tar and gzip, the same bytes each time.

Times and modes stay, since Python compares the times of sources with those in bytecode; owners
become root. Each block is a gzip member of its own (RFC 1952, 2.2): they are compressed at once.
Another zlib than this machine's may compress to other bytes; the digest of the tar stays.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tarfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from ..core import untrusted_folder
from ..core.errors import Refused
from ..core.progress import Progress

BLOCK = 4 << 20
LEVEL = 4
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # no name, no time, no system
WHITEOUT = ".wh."  # image-spec, layer.md: removes a file of a layer below


@dataclass(frozen=True)
class OciLayer:
    """The digests of the tar and of the file, and the file's size in bytes."""

    tar: str
    digest: str
    size: int


class Gzip:
    """A file to write to, which compresses with a thread for each CPU."""

    def __init__(self, target: BinaryIO, pool: ThreadPoolExecutor, progress: Progress) -> None:
        self.target, self.pool, self.progress = target, pool, progress
        self.plain, self.packed = hashlib.sha256(), hashlib.sha256()
        self.buffer = bytearray()
        self.waiting: deque[Future[bytes]] = deque()

    def write(self, data: bytes) -> int:
        self.plain.update(data)
        self.buffer += data
        while len(self.buffer) >= BLOCK:
            self._submit(bytes(self.buffer[:BLOCK]))
            del self.buffer[:BLOCK]
        return len(data)

    def finish(self) -> OciLayer:
        self._submit(bytes(self.buffer))
        self._take(0)
        tar, packed = self.plain.hexdigest(), self.packed.hexdigest()
        return OciLayer(f"sha256:{tar}", f"sha256:{packed}", self.target.tell())

    def _submit(self, block: bytes) -> None:
        self.waiting.append(self.pool.submit(_member, block))
        self._take(2 * len(os.sched_getaffinity(0)))

    def _take(self, left: int) -> None:
        while len(self.waiting) > left:
            data = self.waiting.popleft().result()
            self.packed.update(data)
            self.target.write(data)
            self.progress.at(self.target.tell())


def _member(block: bytes) -> bytes:
    """Return a block as one gzip member; the header of `gzip.compress` depends on the Python."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(block) + packer.flush()
    return HEADER + body + struct.pack("<II", zlib.crc32(block), len(block))


def write(root: Path, names: Iterable[str], target: Path, progress: Progress) -> OciLayer:
    """Write what `names` says, paths below `root`, as a layer into the file `target`."""
    with target.open("wb") as file, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        packed = Gzip(file, pool, progress)
        with tarfile.open(fileobj=cast(BinaryIO, packed), mode="w|", bufsize=1 << 20) as tar:
            for name in names:
                add(tar, root, name)
        return packed.finish()


def add(tar: tarfile.TarFile, root: Path, name: str) -> None:
    """Add one file, folder or link below `root` as root's; leave out a socket."""
    with untrusted_folder.folder(root, str(PurePosixPath(name).parent)) as parent:
        entry = tar.gettarinfo(f"/proc/self/fd/{parent}/{PurePosixPath(name).name}", name)
        if entry is None:
            return
        if not entry.issym() and entry.mode & 0o500 != 0o500:
            # Closed to its owner, whom it had within the image.
            os.chmod(PurePosixPath(name).name, entry.mode | 0o500, dir_fd=parent)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    if not entry.isreg():
        tar.addfile(entry)
        return
    with untrusted_folder.open_file(root, name) as file:
        tar.addfile(entry, file)


def below(root: Path, *names: str) -> Iterator[str]:
    """Yield the names and all below them, sorted, each folder before it is read.

    Raises Refused for a name that a layer cannot hold.
    """
    waiting = sorted(names, reverse=True)
    while waiting:
        name = waiting.pop()
        last = PurePosixPath(name).name
        if last.startswith(WHITEOUT):
            raise Refused(
                f"an OCI image cannot hold {last}: such a name removes a file", id="whiteout-name"
            )
        yield name
        if untrusted_folder.is_folder(root, name):
            waiting += reversed([f"{name}/{child}" for child in untrusted_folder.names(root, name)])
