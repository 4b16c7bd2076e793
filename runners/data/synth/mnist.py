"""Digits in MNIST's form: four IDX files, 28 x 28 pixels."""

from __future__ import annotations

import struct
from pathlib import Path

from ..check.mnist import PARTS
from .patterns import Images
from .request import Asked

EDGE = 28
MOST_CLASSES = 10


def write(folder: Path, asked: Asked) -> None:
    """Write the files."""
    images = Images(asked.seed, asked.classes, EDGE * EDGE)
    for count, (pixels, labels) in zip(asked.parts, PARTS.values()):
        numbers = bytes(images.label(number) for number in range(count))
        with (folder / pixels).open("wb") as file:
            file.write(struct.pack(">IIII", 0x00000803, count, EDGE, EDGE))
            file.writelines(images.image(label) for label in numbers)
        (folder / labels).write_bytes(struct.pack(">II", 0x00000801, count) + numbers)
