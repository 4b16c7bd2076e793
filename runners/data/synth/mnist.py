"""Digits in MNIST's form: four IDX files, 28 x 28 pixels."""

from __future__ import annotations

from pathlib import Path

from recipes.formats.mnist import IDX_NAMES, idx_header

from .patterns import Images
from .request import Asked

EDGE = 28


def write(folder: Path, asked: Asked) -> None:
    """Write the files."""
    images = Images(asked.seed, asked.classes, EDGE * EDGE)
    for count, part in zip(asked.parts, ("train", "test")):
        numbers = bytes(images.label(number) for number in range(count))
        with (folder / IDX_NAMES[f"x_{part}"]).open("wb") as file:
            file.write(idx_header((count, EDGE, EDGE)))
            file.writelines(images.image(label) for label in numbers)
        (folder / IDX_NAMES[f"y_{part}"]).write_bytes(idx_header((count,)) + numbers)
