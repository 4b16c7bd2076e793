"""Writes a SIF again with another file system and other labels.

Times are fixed and the id is made of the content: the same inputs give the same file, byte for
byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from runners.core import sif
from runners.core.sif import Descriptor

BLOCK = 1 << 20
PAGE = 4096  # a file system must start at one, or the kernel cannot mount it
DATE_LABEL = "org.label-schema.build-date"  # the one label that differs each time


def write(like: Path, squashfs: Path, labels: Mapping[str, str], epoch: int, output: Path) -> None:
    """Write the SIF `like` again with another file system and other labels. Raises SifError.

    `epoch`: seconds since 1970, for every time in the file.
    """
    old, entries = sif.read(like)
    placed: list[Descriptor] = []
    content, end = hashlib.sha256(), old.data_offset
    with output.open("wb") as file:
        for entry in entries:
            align = PAGE if entry.type == sif.PARTITION else 1
            start = file.seek(-(-end // align) * align)
            digest = hashlib.sha256()
            for block in _content(entry, like, squashfs, labels):
                file.write(block)
                digest.update(block)
            content.update(digest.digest())
            now = file.tell()
            new = entry._replace(offset=start, size=now - start, padded=now - end, uid=0, gid=0)
            placed.append(new._replace(created=epoch, modified=epoch))
            end = now
        header = old._replace(
            id=content.digest()[:16],
            created=epoch,
            modified=epoch,
            free=old.total - len(placed),
            data_size=end - old.data_offset,
        )
        file.seek(0)
        file.write(sif.HEADER.pack(*header))
        file.seek(old.table_offset)
        file.write(b"".join(sif.DESCRIPTOR.pack(*entry) for entry in placed))
    os.chmod(output, 0o755)  # noqa: S103  as Apptainer writes its images


def _content(
    entry: Descriptor, like: Path, squashfs: Path, labels: Mapping[str, str]
) -> Iterator[bytes]:
    if entry.type == sif.PARTITION:
        return blocks(squashfs, 0, squashfs.stat().st_size)
    content = blocks(like, entry.offset, entry.size)
    return iter([relabelled(b"".join(content), labels)]) if entry.name == sif.METADATA else content


def relabelled(metadata: bytes, labels: Mapping[str, str]) -> bytes:
    """The metadata object (JSON) with `labels` added and the date of the build left out."""
    content = json.loads(metadata)
    inner = content.get("data", content)
    old = inner.setdefault("attributes", {}).get("labels") or {}
    kept = {key: text for key, text in old.items() if key != DATE_LABEL}
    inner["attributes"]["labels"] = {**kept, **labels}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def blocks(path: Path, offset: int, size: int) -> Iterator[bytes]:
    """Read `size` bytes of a file from `offset` on. Raises SifError when there are fewer."""
    with path.open("rb") as file:
        file.seek(offset)
        while size:
            block = file.read(min(BLOCK, size))
            if not block:
                raise sif.SifError(f"it is truncated: {size} bytes are missing")
            yield block
            size -= len(block)
