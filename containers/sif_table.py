"""A SIF's table as it stands in the file, to be written again. To read an image: sif.py."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .sif import DESCRIPTOR, HEADER, objects


class Header(NamedTuple):
    """The global header; offsets and sizes in bytes, times in seconds since 1970."""

    launch: bytes
    magic: bytes
    version: bytes
    arch: bytes
    id: bytes
    created: int
    modified: int
    free: int
    total: int
    table_offset: int
    table_size: int
    data_offset: int
    data_size: int

    def pack(self) -> bytes:
        """As it stands in the file."""
        return HEADER.pack(*self)


class Descriptor(NamedTuple):
    """One data object's entry."""

    type: int
    used: bool
    id: int
    group: int
    link: int
    offset: int
    size: int
    padded: int
    created: int
    modified: int
    uid: int
    gid: int
    name: bytes
    extra: bytes

    def pack(self) -> bytes:
        """As it stands in the file."""
        return DESCRIPTOR.pack(*self)

    @property
    def text(self) -> str:
        """The object's name."""
        return self.name.split(b"\x00")[0].decode("utf-8", "replace")


def read(path: Path) -> tuple[Header, list[Descriptor]]:
    """Header and used entries. Raises SifError for what is no SIF or is cut short."""
    objects(path)  # checks that the file is whole
    with path.open("rb") as file:
        header = Header(*HEADER.unpack(file.read(HEADER.size)))
        file.seek(header.table_offset)
        table = file.read(DESCRIPTOR.size * header.total)
    entries = [Descriptor(*values) for values in DESCRIPTOR.iter_unpack(table)]
    return header, [entry for entry in entries if entry.used]
