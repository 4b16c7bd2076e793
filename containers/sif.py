"""Reads a Singularity image file's own table: is it whole, and what labels does it carry?

Layout from the SIF specification 1.0 (github.com/apptainer/sif, pkg/sif): a global header of 128
bytes, then descriptors of 585 bytes each, then the data objects. `apptainer inspect` reads the same
JSON object, but takes 0.1 s and a container runtime.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"SIF_MAGIC\x00"
# launch, magic, version, arch, id, created, modified, free and total descriptors,
# descriptors' offset and size, data's offset and size
HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
# type, used, id, group, link, offset, size, padded size, created, modified, uid, gid, name, extra
DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
GENERIC_JSON, PARTITION = 0x4006, 0x4004
METADATA = "inspect-metadata.json"


class SifError(Exception):
    """The file is not a SIF, or not a whole one."""


@dataclass(frozen=True)
class DataObject:
    """One object of the file: SIF's type number, name, and place in bytes."""

    type: int
    name: str
    offset: int
    size: int


def objects(path: Path) -> list[DataObject]:
    """Return the objects in the file; raise SifError when it is no SIF or is cut short."""
    with path.open("rb") as file:
        found = _read_table(file)
        length = file.seek(0, 2)
    if not any(item.type == PARTITION for item in found):
        raise SifError("it holds no file system")
    end = max(item.offset + item.size for item in found)
    if end > length:
        raise SifError(f"it is cut short: {length} bytes of at least {end}")
    return found


def labels(path: Path) -> dict[str, str] | None:
    """Return the image's labels, None where the file has no such object (before Singularity 3.6).

    Raises SifError as `objects` does.
    """
    for item in objects(path):
        if item.type == GENERIC_JSON and item.name == METADATA:
            with path.open("rb") as file:
                file.seek(item.offset)
                return _labels_of(json.loads(file.read(item.size)))
    return None


def _read_table(file: BinaryIO) -> list[DataObject]:
    raw = file.read(HEADER.size)
    if len(raw) < HEADER.size or HEADER.unpack(raw)[1] != MAGIC:
        raise SifError("it does not start like a SIF")
    total, offset = HEADER.unpack(raw)[8:10]
    file.seek(offset)
    table = file.read(DESCRIPTOR.size * total)
    if len(table) < DESCRIPTOR.size * total:
        raise SifError("it is cut short within its table of contents")
    return [_object(values) for values in DESCRIPTOR.iter_unpack(table) if values[1]]


def _object(values: tuple[Any, ...]) -> DataObject:
    name = values[12].split(b"\x00")[0].decode("utf-8", "replace")
    return DataObject(type=values[0], name=name, offset=values[5], size=values[6])


def _labels_of(metadata: dict[str, Any]) -> dict[str, str]:
    attributes = metadata.get("data", metadata).get("attributes", {})
    return dict(attributes.get("labels") or {})
