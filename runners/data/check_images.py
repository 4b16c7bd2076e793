"""A folder of images by class (see `recipes.formats.imagefolder`).

Each image is told by its first bytes, not by its name: ImageNet has a PNG that is called JPEG.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from recipes.formats.imagefolder import PARTS, SUFFIXES

PNG, JPEG, JPEG_END = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\xff\xd9"


def fits(folder: Path) -> bool:
    """Whether there are folders of classes with an image in one of them."""
    return any(next(_images(folder / part), None) for part in PARTS)


def look(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Look at each image; return the facts, and the files that are wrong, each with what is wrong.

    The classes of both parts should be the same.
    """
    facts: dict[str, int] = {}
    faults: list[tuple[str, str]] = []
    classes: dict[str, set[str]] = {}
    for part in PARTS:
        number = size = 0
        classes[part] = set()
        for path in _images(folder / part):
            classes[part].add(path.parent.name)
            length, wrong = _read(path)
            number, size = number + 1, size + length
            if wrong:
                faults.append((str(path.relative_to(folder)), wrong))
        facts[f"{part} images"] = number
        facts[f"{part} classes"] = len(classes[part])
        facts[f"{part} bytes"] = size
    if classes["val"]:
        for name in sorted(classes["train"] ^ classes["val"])[:5]:
            where = "train" if name in classes["train"] else "val"
            faults.append((f"{where}/{name}", f"this class is in {where} alone"))
    return facts, faults


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
