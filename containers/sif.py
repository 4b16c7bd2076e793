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
GENERIC_JSON, PARTITION, SIGNATURE = 0x4006, 0x4004, 0x4005
GROUP_LINK = 0xF0000000  # marks a group's number, in an object's own field as in a link
# pkg/sif/descriptor.go: file system, kind and machine of a partition; hash and key of a signature
PARTITION_EXTRA, PRIMARY_SYSTEM = struct.Struct("<ii3s"), 2
SIGNATURE_EXTRA = struct.Struct("<i20s")
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


class SifError(Exception):
    """The file is not a SIF, or not a whole one."""


@dataclass(frozen=True)
class DataObject:
    """One object of the file: SIF's type number, name, and place in bytes.

    `group` is 0 for none; the `link` of a signature is what it signs: an object's id, or a group's
    with GROUP_LINK set. `extra` depends on the type.
    """

    type: int
    name: str
    offset: int
    size: int
    id: int = 0
    group: int = 0
    link: int = 0
    extra: bytes = b""


def objects(path: Path) -> list[DataObject]:
    """Return the objects in the file; raise SifError when it is no SIF or is cut short."""
    with path.open("rb") as file:
        return objects_in(file)


def objects_in(file: BinaryIO) -> list[DataObject]:
    """The same of an open file, which may lie elsewhere: only its table is read."""
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
    with path.open("rb") as file:
        return labels_in(file)


def labels_in(file: BinaryIO) -> dict[str, str] | None:
    """The same of an open file, of which the table and the labels are read."""
    for item in objects_in(file):
        if item.type == GENERIC_JSON and item.name == METADATA:
            file.seek(item.offset)
            return _labels_of(json.loads(file.read(item.size)))
    return None


def table_of_contents(path: Path) -> dict[int, bytes]:
    """Return the header and the descriptors, used or not, by their offset in the file."""
    with path.open("rb") as file:
        total, offset = _read_header(file)[8:10]
        file.seek(0)
        header = file.read(HEADER.size)
        file.seek(offset)
        return {0: header, offset: file.read(DESCRIPTOR.size * total)}


def architecture(found: list[DataObject]) -> str | None:
    """Return the machine that the image's file system is for, in Go's words, such as amd64."""
    for item in found:
        if item.type == PARTITION:
            _, kind, code = PARTITION_EXTRA.unpack_from(item.extra)
            if kind == PRIMARY_SYSTEM:
                return ARCHITECTURES.get(code[:2].decode("ascii", "replace"))
    return None


def signed_by(item: DataObject) -> str:
    """Return the fingerprint that a signature object names, in capital hexadecimal digits.

    It is a claim: only the check of the signature proves it. Empty for signatures without PGP.
    """
    _, entity = SIGNATURE_EXTRA.unpack_from(item.extra)
    return "" if not any(entity) else str(entity.hex().upper())


def _read_header(file: BinaryIO) -> tuple[Any, ...]:
    raw = file.read(HEADER.size)
    if len(raw) < HEADER.size or HEADER.unpack(raw)[1] != MAGIC:
        raise SifError("it does not start like a SIF")
    return HEADER.unpack(raw)


def _read_table(file: BinaryIO) -> list[DataObject]:
    total, offset = _read_header(file)[8:10]
    if not 0 <= total * DESCRIPTOR.size <= file.seek(0, 2) or offset < 0:
        raise SifError("it is cut short within its table of contents, or altered there")
    file.seek(offset)
    table = file.read(DESCRIPTOR.size * total)
    if len(table) < DESCRIPTOR.size * total:
        raise SifError("it is cut short within its table of contents")
    return [_object(values) for values in DESCRIPTOR.iter_unpack(table) if values[1]]


def _object(values: tuple[Any, ...]) -> DataObject:
    name = values[12].split(b"\x00")[0].decode("utf-8", "replace")
    kind, _, id, group, link, offset, size = values[:7]
    return DataObject(kind, name, offset, size, id, group & ~GROUP_LINK, link, values[13])


def _labels_of(metadata: Any) -> dict[str, str]:
    try:
        attributes = metadata.get("data", metadata).get("attributes", {})
        return {str(key): str(text) for key, text in (attributes.get("labels") or {}).items()}
    except AttributeError:
        raise SifError("its labels are damaged") from None
