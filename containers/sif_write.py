"""Writes a SIF again with another file system and other labels.

Times are fixed and the id is made of the content: the same inputs give the same file, byte for
byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from . import digest, sif
from .sif import Descriptor, Header

BLOCK = 1 << 20
PAGE = 4096  # a file system must start at one, or the kernel cannot mount it
DATE_LABEL = "org.label-schema.build-date"  # the one label that differs each time


@dataclass(frozen=True)
class Piece:
    """One data object to write: its descriptor, and where its bytes are."""

    descriptor: Descriptor
    file: Path | None = None  # whole, or the part [offset, offset + size)
    offset: int = 0
    data: bytes = b""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.descriptor.size


def write(like: Path, squashfs: Path, labels: Mapping[str, str], epoch: int, output: Path) -> None:
    """Write the SIF `like` again with another file system and other labels. Raises SifError.

    `epoch`: seconds since 1970, for every time in the file.
    """
    old, entries = sif.read(like)
    pieces = [_piece(found, like, squashfs, labels) for found in entries]
    placed = _place(pieces, old.data_offset, epoch)
    with output.open("wb") as file:
        file.write(_header(old, placed, epoch).pack())
        file.seek(old.table_offset)
        file.write(b"".join(piece.descriptor.pack() for piece in placed))
        for piece in placed:
            file.seek(piece.descriptor.offset)
            _write_piece(piece, file)
    os.chmod(output, 0o755)


def _piece(found: Descriptor, like: Path, squashfs: Path, labels: Mapping[str, str]) -> Piece:
    if found.type == sif.PARTITION:
        size = squashfs.stat().st_size
        return Piece(found._replace(size=size), squashfs)
    if found.name == sif.METADATA:
        with like.open("rb") as file:
            file.seek(found.offset)
            data = relabelled(file.read(found.size), labels)
        return Piece(found._replace(size=len(data)), data=data)
    return Piece(found, like, found.offset)


def relabelled(metadata: bytes, labels: Mapping[str, str]) -> bytes:
    """The metadata object (JSON) with `labels` added and the date of the build left out."""
    content: dict[str, Any] = json.loads(metadata)
    inner = content.get("data", content)
    old = inner.setdefault("attributes", {}).get("labels") or {}
    kept = {key: text for key, text in old.items() if key != DATE_LABEL}
    inner["attributes"]["labels"] = {**kept, **labels}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _place(pieces: Sequence[Piece], start: int, epoch: int) -> list[Piece]:
    placed, end = [], start
    for piece in pieces:
        align = PAGE if piece.descriptor.type == sif.PARTITION else 1
        offset = -(-end // align) * align
        new = piece.descriptor._replace(
            offset=offset,
            padded=piece.size + offset - end,
            created=epoch,
            modified=epoch,
            uid=0,
            gid=0,
        )
        placed.append(replace(piece, descriptor=new))
        end = offset + piece.size
    return placed


def _header(old: Header, placed: Sequence[Piece], epoch: int) -> Header:
    content = hashlib.sha256(b"".join(map(_digest, placed)))
    last = placed[-1].descriptor
    return old._replace(
        id=content.digest()[:16],
        created=epoch,
        modified=epoch,
        free=old.total - len(placed),
        data_size=last.offset + last.size - old.data_offset,
    )


def _digest(piece: Piece) -> bytes:
    if piece.file is None:
        return hashlib.sha256(piece.data).digest()
    return bytes.fromhex(digest.sha256(piece.file, piece.offset, piece.size))


def _write_piece(piece: Piece, output: BinaryIO) -> None:
    output.write(piece.data)
    if piece.file:
        with piece.file.open("rb") as source:
            source.seek(piece.offset)
            copy(source, output, piece.size)


def copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy `size` bytes. Raises SifError when there are fewer."""
    left = size
    while left:
        block = source.read(min(BLOCK, left))
        if not block:
            raise sif.SifError(f"it is cut short: {left} bytes are missing")
        target.write(block)
        left -= len(block)
