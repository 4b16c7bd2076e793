"""Labelled pictures to learn from: what all readers of them return, and synthetic ones.

Pictures are uint8 arrays (count, size, size, 3), red green blue; trainers scale them on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recipes.common import Indices

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
SHIFT = 4  # pixels by which a picture may be moved (He et al. 2016, arXiv:1512.03385, section 4.2)
SYNTHETIC_POOL = 64  # different pictures: what their values are changes no speed
GREY = (0.5, 0.5, 0.5)


class Pictures(Protocol):
    """One part of a data set, to learn from or to test with."""

    def __len__(self) -> int: ...

    def read(self, epoch: int, part: Indices) -> tuple[Pixels, Labels]:
        """Return pictures and labels; in another epoch pictures to learn from look different.

        How depends on seed, epoch and index alone: a run that was interrupted sees the same ones.
        Raises `UserError` naming a file that cannot be read.
        """


@dataclass(frozen=True)
class PictureSet:
    """A data set; `mean` and `deviation` are those of each colour, of values from 0 to 1."""

    name: str
    classes: int
    size: int
    train: Pictures
    test: Pictures
    mean: tuple[float, float, float] = GREY
    deviation: tuple[float, float, float] = GREY

    def describe(self) -> str:
        return (
            f"{self.name}, {self.classes} classes, {self.size} x {self.size} pixels, "
            f"{len(self.train)} to learn from, {len(self.test)} to test with"
        )


class Held:
    """Pictures in memory; with a `seed` each is shifted by a few pixels and perhaps mirrored."""

    def __init__(self, pixels: Pixels, labels: Labels, seed: int | None = None) -> None:
        self.pixels, self.labels, self.seed = pixels, labels, seed

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, epoch: int, part: Indices) -> tuple[Pixels, Labels]:
        found = self.pixels[part]
        if self.seed is not None:
            wide = np.pad(found, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)))
            for place, index in enumerate(part):
                generator = np.random.default_rng([self.seed, epoch, index])
                found[place] = _moved(wide[place], found.shape[1], generator)
        return found, self.labels[part]


def _moved(wide: Pixels, size: int, generator: np.random.Generator) -> Pixels:
    top, left = generator.integers(2 * SHIFT + 1, size=2)
    cut = wide[top : top + size, left : left + size]
    return cut[:, ::-1] if generator.integers(2) else cut


class Synthetic:
    """As many pictures as wanted, the same few again and again: nothing is read or computed."""

    def __init__(self, count: int, size: int, classes: int) -> None:
        self.count, self.classes = count, classes
        generator = np.random.default_rng(0)
        self.pool = generator.integers(256, size=(SYNTHETIC_POOL, size, size, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return self.count

    def read(self, epoch: int, part: Indices) -> tuple[Pixels, Labels]:
        return self.pool[part % SYNTHETIC_POOL], part % self.classes


def synthetic(size: int, classes: int, count: int, test_count: int) -> PictureSet:
    """Make pictures without meaning, to measure speed with."""
    train, test = (Synthetic(number, size, classes) for number in (count, test_count))
    return PictureSet("synthetic pictures", classes, size, train, test)
