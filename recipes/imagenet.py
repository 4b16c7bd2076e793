"""Pictures in folders, as ImageNet has them: `train/CLASS/*.JPEG` and `val/CLASS/*.JPEG`.

The classes are the folders of train, sorted. `load` looks into all folders; call it on one rank and
broadcast what it returns, for a million names are hard work for the servers of a shared folder.
The files are read when they are needed; Pillow decodes them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from recipes import cifar
from recipes.common import Indices, UserError
from recipes.errors import reading, require_folder
from recipes.formats.imagefolder import PARTS, SUFFIXES, TRAIN, VAL
from recipes.pictures import Labels, PictureSet, Pixels
from recipes.resnet_options import CIFAR

# Of ImageNet's training pictures, as torchvision's models have them.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Cuts for training (Szegedy et al. 2014, arXiv:1409.4842, section 6): share of the area, and shape.
AREA, SHAPE = (0.08, 1.0), (3 / 4, 4 / 3)
ATTEMPTS = 10
MIDDLE = 224 / 256  # share of a picture's shorter side that is looked at for testing


def load(folder: str, size: int, seed: int) -> PictureSet:
    """Return the pictures of a folder as squares of `size` pixels; `seed` decides on cuts.

    Raises `UserError` naming what is missing.
    """
    root = Path(folder)
    require_folder(root)
    for part in PARTS:
        if not (root / part).is_dir():
            raise UserError(f"no folder {part} in {root}: {_needed(root)}")
    classes = _classes(root / TRAIN)
    strays = sorted(set(_classes(root / VAL)) - set(classes))
    if strays:
        raise UserError(f"{root / VAL} has classes that train has not: {', '.join(strays[:5])}")
    train = Folder(folder, *_files(root, TRAIN, classes), size, seed)
    test = Folder(folder, *_files(root, VAL, classes), size, None)
    return PictureSet(folder, len(classes), size, train, test, MEAN, DEVIATION)


def _needed(root: Path) -> str:
    if cifar.is_in(root):
        return f"it has CIFAR-10, which --model {' and '.join(CIFAR)} are for"
    return "needed are train/CLASS/*.JPEG and val"


def _classes(part: Path) -> list[str]:
    with reading(part), os.scandir(part) as entries:
        found = sorted(entry.name for entry in entries if entry.is_dir() and _shown(entry.name))
    if not found:
        raise UserError(f"{part} has no folders: each class needs its own, {part}/CLASS/*.JPEG")
    return found


def _files(root: Path, part: str, classes: list[str]) -> tuple[list[str], Labels]:
    """Return the names of pictures, such as `train/n01440764/a.JPEG`, and their labels."""
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        folder = root / part / name
        found = _pictures(folder) if part == "train" or folder.is_dir() else []
        if part == "train" and not found:
            raise UserError(f"{folder} has no pictures: no file ends in {', '.join(SUFFIXES)}")
        names += [f"{part}/{name}/{file}" for file in found]
        labels += [label] * len(found)
    if not names:
        raise UserError(f"{root / part} has no pictures: no file ends in {', '.join(SUFFIXES)}")
    return names, np.array(labels, np.int64)


def _pictures(folder: Path) -> list[str]:
    with reading(folder):
        names = os.listdir(folder)
    return sorted(one for one in names if one.lower().endswith(SUFFIXES) and _shown(one))


def _shown(name: str) -> bool:
    return not name.startswith(".")


class Folder:
    """Pictures in files: with a `seed` random cuts, perhaps mirrored, else their middle."""

    def __init__(
        self, root: str, names: list[str], labels: Labels, size: int, seed: int | None
    ) -> None:
        self.root, self.names, self.labels, self.size, self.seed = root, names, labels, size, seed

    def __len__(self) -> int:
        return len(self.names)

    def read(self, epoch: int, part: Indices) -> tuple[Pixels, Labels]:
        pixels = np.empty((len(part), self.size, self.size, 3), np.uint8)
        for place, index in enumerate(map(int, part)):
            seed = self.seed
            generator = None if seed is None else np.random.default_rng([seed, epoch, index])
            path = os.path.join(self.root, self.names[index])
            pixels[place] = decode(path, self.size, generator)
        return pixels, self.labels[part]


def decode(path: str, size: int, generator: np.random.Generator | None) -> Pixels:
    """Read a picture, cut a part of it and scale that; without `generator` its middle.

    Raises `UserError` naming the file if it cannot be read.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            box = middle(picture.size) if generator is None else cut(picture.size, generator)
            scaled = picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=box)
    except Exception as error:  # on hostile bytes Pillow raises a dozen different types
        raise UserError(f"cannot read the picture {path}: {_words(error)}") from error
    pixels = np.asarray(scaled)
    return pixels[:, ::-1] if generator is not None and generator.integers(2) else pixels


def _words(error: Any) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def cut(size: tuple[int, int], generator: np.random.Generator) -> tuple[float, ...]:
    """Draw a part of a picture of `size` (width, height): of random area, shape and place.

    Returns its left, top, right and bottom.
    """
    width, height = size
    low, high = (math.log(shape) for shape in SHAPE)
    for _ in range(ATTEMPTS):
        area = width * height * generator.uniform(*AREA)
        shape = math.exp(generator.uniform(low, high))
        wide, tall = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < wide <= width and 0 < tall <= height:
            left = int(generator.integers(width - wide + 1))
            top = int(generator.integers(height - tall + 1))
            return left, top, left + wide, top + tall
    return _square(size, min(size))


def middle(size: tuple[int, int]) -> tuple[float, ...]:
    """Return left, top, right and bottom of the middle of a picture."""
    return _square(size, min(size) * MIDDLE)


def _square(size: tuple[int, int], side: float) -> tuple[float, ...]:
    left, top = ((length - side) / 2 for length in size)
    return left, top, left + side, top + side
