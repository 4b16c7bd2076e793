"""Pictures in CIFAR-10's binary form: records of a label and 3 x 32 x 32 bytes."""

from __future__ import annotations

from pathlib import Path

from ..check.cifar import INNER, PARTS, RECORD
from .patterns import Images
from .request import Asked


def write(folder: Path, asked: Asked) -> None:
    """Write the five files to train on, which share the samples, and the one to test with."""
    images = Images(asked.seed, asked.classes, RECORD - 1)
    (folder / INNER).mkdir()
    number = 0
    for count, names in zip(asked.parts, PARTS.values()):
        for position, name in enumerate(names):
            share = count * (position + 1) // len(names) - count * position // len(names)
            with (folder / INNER / name).open("wb") as file:
                for _ in range(share):
                    label = images.label(number)
                    file.write(bytes([label]) + images.image(label))
                    number += 1
