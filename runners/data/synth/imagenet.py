"""A folder of images by class, as ImageNet's: `train/CLASS/NUMBER.png` and `val/CLASS/NUMBER.png`.

PNG, because the standard library can write it: a header, zlib's stream of rows, an end. Nothing is
compressed, since noise cannot be.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from recipes.formats.imagefolder import PARTS

from ..check.images import PNG
from .patterns import Images
from .request import Asked


def write(folder: Path, asked: Asked) -> None:
    """Write the images, of `size` x `size` pixels in three colours."""
    images = Images(asked.seed, asked.classes, 3 * asked.size * asked.size)
    for count, part in zip(asked.parts, PARTS):
        for label in range(min(asked.classes, count)):
            (folder / part / _class(label)).mkdir(parents=True)
        for number in range(count):
            label = images.label(number)
            path = folder / part / _class(label) / f"{number:08d}.png"
            path.write_bytes(png(images.image(label), asked.size))


def _class(label: int) -> str:
    return f"n{label:08d}"


def png(pixels: bytes, edge: int) -> bytes:
    """Return a square RGB image as PNG; each row is preceded by its filter, 0 for none."""
    width = 3 * edge
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return PNG + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum
