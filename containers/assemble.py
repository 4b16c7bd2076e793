"""An image = an environment (all that takes long, packed once) + our trainers, appended to it.

A squashfs can grow at its end, so an edited trainer costs a copy of the file instead of a new
packing of gigabytes. The SIF around it is written here with fixed times and an id made of its
content: the same inputs give the same file, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from . import sif, sif_table
from .sif_table import Descriptor, Header

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


def extract(image: Path, target: Path) -> None:
    """Copy the file system of a SIF. Raises SifError."""
    _, entries = sif_table.read(image)
    found = next(entry for entry in entries if entry.type == sif.PARTITION)
    with image.open("rb") as source, target.open("wb") as output:
        source.seek(found.offset)
        _copy(source, output, found.size)


def write(like: Path, squashfs: Path, labels: Mapping[str, str], epoch: int, output: Path) -> None:
    """Write the SIF `like` again with another file system and other labels. Raises SifError.

    `epoch`: seconds since 1970, for every time in the file.
    """
    old, entries = sif_table.read(like)
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
    if found.text == sif.METADATA:
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
    digest = hashlib.sha256()
    for piece in placed:
        digest.update(_digest(piece))
    last = placed[-1].descriptor
    return old._replace(
        id=digest.digest()[:16],
        created=epoch,
        modified=epoch,
        free=old.total - len(placed),
        data_size=last.offset + last.size - old.data_offset,
    )


def _digest(piece: Piece) -> bytes:
    digest = hashlib.sha256(piece.data)
    if piece.file:
        with piece.file.open("rb") as file:
            file.seek(piece.offset)
            left = piece.size
            while left and (block := file.read(min(BLOCK, left))):
                digest.update(block)
                left -= len(block)
    return digest.digest()


def _write_piece(piece: Piece, output: BinaryIO) -> None:
    output.write(piece.data)
    if piece.file:
        with piece.file.open("rb") as source:
            source.seek(piece.offset)
            _copy(source, output, piece.size)


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    left = size
    while left:
        block = source.read(min(BLOCK, left))
        if not block:
            raise sif.SifError(f"it is cut short: {left} bytes are missing")
        target.write(block)
        left -= len(block)


def stage(sources: Sequence[Path], checkout: Path, folder: Path) -> None:
    """Put the files of the package `recipes` of a checkout where they will lie in the image."""
    for source in sources:
        target = folder / "trainers" / source.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for made in (folder / "trainers", *(folder / "trainers").rglob("*")):
        if made.is_dir():
            made.chmod(0o755)
