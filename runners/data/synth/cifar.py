"""Pictures in CIFAR-10's binary form: records of a label and 3 x 32 x 32 bytes."""

from __future__ import annotations

from pathlib import Path

from recipes.formats.cifar import BINARY, FORMS, PIXELS, TEST, TRAINING

from .patterns import Images
from .request import Asked


def write(folder: Path, asked: Asked) -> None:
    """Write the five files to train on, which share the samples, and the one to test with."""
    images = Images(asked.seed, asked.classes, PIXELS)
    (folder / BINARY).mkdir()
    number = 0
    for count, names in zip(asked.parts, (TRAINING, TEST)):
        for position, name in enumerate(names):
            share = count * (position + 1) // len(names) - count * position // len(names)
            with (folder / BINARY / f"{name}{FORMS[BINARY]}").open("wb") as file:
                for _ in range(share):
                    label = images.label(number)
                    file.write(bytes([label]) + images.image(label))
                    number += 1
