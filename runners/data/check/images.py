"""A folder of images by class (see `recipes.formats.imagefolder`).

Each image is told by its first bytes, not by its name: ImageNet has a PNG that is called JPEG.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from recipes.formats.imagefolder import PARTS, SUFFIXES

from .report import Report

PNG, JPEG, JPEG_END = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\xff\xd9"


def fits(folder: Path) -> bool:
    """Whether there are folders of classes with an image in one of them."""
    return any(next(_images(folder / part), None) for part in PARTS)


def check(folder: Path, report: Report) -> None:
    """Look at each image; the classes of both parts should be the same."""
    classes: dict[str, set[str]] = {}
    for part in PARTS:
        number = size = 0
        classes[part] = set()
        for path in _images(folder / part):
            classes[part].add(path.parent.name)
            data = _read(path, folder, report)
            number, size = number + 1, size + len(data)
        report.fact(f"{part} images", number)
        report.fact(f"{part} classes", len(classes[part]))
        report.fact(f"{part} bytes", size)
    if classes["val"] and classes["train"] != classes["val"]:
        for name in sorted(classes["train"] ^ classes["val"])[:5]:
            where = [part for part in PARTS if name in classes[part]]
            report.fault(f"{where[0]}/{name}", f"this class is in {where[0]} alone")


def _images(folder: Path) -> Iterator[Path]:
    """Yield the images of all classes, in order."""
    for path, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            if path != str(folder) and name.lower().endswith(SUFFIXES):
                yield Path(path, name)


def _read(path: Path, folder: Path, report: Report) -> bytes:
    name = str(path.relative_to(folder))
    try:
        data = path.read_bytes()
    except OSError as error:
        report.fault(name, f"cannot be read: {error.strerror}")
        return b""
    wrong = fault(data)
    if wrong:
        report.fault(name, wrong)
    return data


def fault(data: bytes) -> str:
    """Return what is wrong with an image's bytes, "" for a whole JPEG or PNG."""
    if data.startswith(PNG):
        return _fault_of_png(data)
    if data.startswith(JPEG):
        # Some programs pad with zeros, or add text behind the end.
        return "" if JPEG_END in data[-4096:] else "a JPEG that is cut short: no end marker"
    return f"neither JPEG nor PNG: it starts with {data[:4].hex(' ') or 'nothing'}"


def _fault_of_png(data: bytes) -> str:
    """Each chunk: length, type, content, CRC-32 of type and content; the last one is IEND."""
    at = len(PNG)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if end + 4 > len(data):
            break
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return f"a PNG with a wrong checksum in {kind.decode('ascii', 'replace')} at {at}"
        if kind == b"IEND":
            return ""
        at = end + 4
    return "a PNG that is cut short: no end chunk"
