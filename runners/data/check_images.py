"""A folder of images by class (see `recipes.formats.imagefolder`).

Each image is told by its first bytes, not by its name: ImageNet has a PNG that is called JPEG.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from recipes.formats.imagefolder import PARTS, SUFFIXES

if TYPE_CHECKING:
    from .check import Report

PNG, JPEG, JPEG_END = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\xff\xd9"


def look(folder: Path, report: Report) -> bool:
    """Look at each image of folders of classes; return False where there are none.

    The classes of both parts should be the same.
    """
    if not any(next(_images(folder / part), None) for part in PARTS):
        return False
    classes: dict[str, set[str]] = {part: set() for part in PARTS}
    for part, names in classes.items():
        number = size = 0
        for path in _images(folder / part):
            names.add(path.parent.name)
            length, wrong = _read(path)
            number, size = number + 1, size + length
            if wrong:
                report.fault(str(path.relative_to(folder)), wrong)
        report.facts[f"{part} images"] = number
        report.facts[f"{part} classes"] = len(names)
        report.facts[f"{part} bytes"] = size
    if classes["val"]:
        for name in sorted(classes["train"] ^ classes["val"])[:5]:
            where = "train" if name in classes["train"] else "val"
            report.fault(f"{where}/{name}", f"this class is in {where} alone")
    return True


def _images(folder: Path) -> Iterator[Path]:
    """Yield the images of all classes, in order."""
    for path, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            if path != str(folder) and name.lower().endswith(SUFFIXES):
                yield Path(path, name)


def _read(path: Path) -> tuple[int, str]:
    """Return an image's size in bytes, and what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return 0, f"cannot be read: {error.strerror}"
    return len(data), fault(data)


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
