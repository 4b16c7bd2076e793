"""Decodes SIF files (Singularity image format): header, table of objects, labels.

Layout from the SIF specification 1.0 (github.com/apptainer/sif, pkg/sif): a global header of 128
bytes, then descriptors of 585 bytes each, then the data objects. `apptainer inspect` reads the same
JSON object, but takes 0.1 s and a container runtime.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAGIC = b"SIF_MAGIC\x00"
HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
DEFINITION, PARTITION, SIGNATURE, GENERIC_JSON = 0x4001, 0x4004, 0x4005, 0x4006
# pkg/sif/descriptor.go: file system, kind and machine of a partition
PARTITION_EXTRA, PRIMARY_SYSTEM = struct.Struct("<ii3s"), 2
# pkg/sif/arch.go
ARCHITECTURES = {
    "01": "386",
    "02": "amd64",
    "03": "arm",
    "04": "arm64",
    "05": "ppc64",
    "06": "ppc64le",
    "11": "s390x",
    "12": "riscv64",
}
METADATA = "inspect-metadata.json"
# Apptainer makes tables for 48 objects, and labels of a few kB; an image of others may claim any.
MOST_OBJECTS, LARGEST_METADATA = 4096, 16 << 20


class SifError(Exception):
    """The file is not a SIF, or not a whole one."""


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


class Descriptor(NamedTuple):
    """One data object's entry: SIF's type number, its place in bytes, and its name.

    `extra` depends on the type.
    """

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
    name_field: bytes
    extra: bytes

    @property
    def name(self) -> str:
        return self.name_field.split(b"\x00")[0].decode("utf-8", "replace")


def read(path: Path) -> tuple[Header, list[Descriptor]]:
    """Return header and used entries; raise SifError when it is no SIF or is truncated."""
    with path.open("rb") as file:
        return _read(file)


def objects(path: Path) -> list[Descriptor]:
    """Return the objects in the file; raise SifError when it is no SIF or is truncated."""
    return read(path)[1]


def _read(file: BinaryIO) -> tuple[Header, list[Descriptor]]:
    """Return both of an open file, which may be remote: only its table of contents is read."""
    raw, length = file.read(HEADER.size), file.seek(0, 2)
    if len(raw) < HEADER.size or HEADER.unpack(raw)[1] != MAGIC:
        raise SifError("it does not start like a SIF")
    head = Header(*HEADER.unpack(raw))
    size = head.total * DESCRIPTOR.size
    within = 0 <= head.table_offset <= length - size
    if not within or not 0 <= head.total <= MOST_OBJECTS:
        raise SifError("it is truncated within its table of contents, or altered there")
    file.seek(head.table_offset)
    entries = (Descriptor(*values) for values in DESCRIPTOR.iter_unpack(file.read(size)))
    used = [entry for entry in entries if entry.used]
    if any(item.offset < 0 or item.size < 0 for item in used):
        raise SifError("its table of contents is damaged")
    if not any(item.type == PARTITION for item in used):
        raise SifError("it holds no file system")
    end = max(item.offset + item.size for item in used)
    if end > length:
        raise SifError(f"it is truncated: {length} bytes of at least {end}")
    return head, used


def labels(path: Path) -> dict[str, str] | None:
    """Return the image's labels, None where the file has no such object (before Singularity 3.6).

    Raises SifError as `objects` does.
    """
    with path.open("rb") as file:
        return labels_in(file)


def labels_in(file: BinaryIO) -> dict[str, str] | None:
    """The same of an open file, of which the table and the labels are read."""
    for item in _read(file)[1]:
        if item.type == GENERIC_JSON and item.name == METADATA:
            if item.size > LARGEST_METADATA:
                raise SifError(f"its labels claim {item.size} bytes")
            file.seek(item.offset)
            return _labels_of(file.read(item.size))
    return None


def definition(path: Path) -> str:
    """Return the definition that the file holds as an object of its own, "" for none.

    Raises SifError as `objects` does.
    """
    with path.open("rb") as file:
        for item in _read(file)[1]:
            if item.type == DEFINITION and item.size <= LARGEST_METADATA:
                file.seek(item.offset)
                return file.read(item.size).decode("utf-8", "replace")
    return ""


def _labels_of(raw: bytes) -> dict[str, str]:
    try:
        metadata = json.loads(raw)
        labels = metadata.get("data", metadata).get("attributes", {}).get("labels") or {}
        return {str(key): str(text) for key, text in labels.items()}
    except (ValueError, AttributeError, RecursionError):
        raise SifError("its labels are damaged") from None


def architecture(descriptors: list[Descriptor]) -> str | None:
    """Return the machine that the image's file system is for, in Go's words, such as amd64."""
    for item in descriptors:
        if item.type == PARTITION:
            _, kind, code = PARTITION_EXTRA.unpack_from(item.extra)
            if kind == PRIMARY_SYSTEM:
                return ARCHITECTURES.get(code[:2].decode("ascii", "replace"))
    return None


def is_signed(path: Path) -> bool:
    """Whether the file holds a signature, which may be wrong. Raises SifError as `objects` does."""
    return any(item.type == SIGNATURE for item in objects(path))
