"""Labelled images: an ImageNet folder (`train/CLASS/*.JPEG`, `val/CLASS/*.JPEG`), or CIFAR-10.

Images are uint8 arrays (count, size, size, 3), red green blue; trainers normalize them on the
device. Augmentation depends on seed, epoch and index alone: an interrupted run sees the same ones.
Nothing is downloaded, and no pickle may run anything.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.distributed import Ranks, UserError, together

Images = tuple[NDArray[np.uint8], NDArray[np.int64]]  # with their labels
SUFFIXES = (".jpeg", ".jpg", ".png")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Random crops (Szegedy et al. 2014, arXiv:1409.4842): share of the area, and aspect ratio.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
CENTER = 224 / 256  # share of the shorter side that is tested on
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR_SIZE, CIFAR_CLASSES, PADDING = 32, 10, 4
CIFAR_BLOCKS = {"resnet20": 3, "resnet110": 18}  # of two layers, in each of the three stages
CIFAR_FOLDERS = {"cifar-10-batches-bin": ".bin", "cifar-10-batches-py": ""}
CIFAR_TRAIN, CIFAR_TEST = [f"data_batch_{number}" for number in range(1, 6)], ["test_batch"]
# All that CIFAR-10's pickles need, by the names that old and new numpy write.
ARRAYS = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
ARRAYS |= {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
ARRAYS |= {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


@dataclass(frozen=True)
class ImageSet:
    """A dataset; `mean` and `std` are those of each color, of values from 0 to 1."""

    name: str
    classes: int
    size: int
    train: Any
    test: Any
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def describe(self) -> str:
        counts = f"{len(self.train)} training and {len(self.test)} test images"
        return f"{self.name}, {self.classes} classes, {self.size} x {self.size} pixels, {counts}"


def load_imagenet(folder: str, size: int, seed: int) -> ImageSet:
    """List the images of a folder; call it on one rank and broadcast what it returns.

    A million names are hard work for the servers of a shared folder. Raises `UserError` naming
    what is missing.
    """
    root = Path(folder)
    for part in ("train", "val"):
        if not (root / part).is_dir():
            needed = "needed are train/CLASS/*.JPEG and val"
            if any((root / name).is_dir() for name in CIFAR_FOLDERS):
                needed = "it has CIFAR-10, which --model resnet20 is for"
            raise UserError(f"no folder {part} in {root}: {needed}")
    classes = _listed(root / "train", folders=True)
    if not classes:
        raise UserError(f"{root / 'train'} has no folders: each class needs its own")
    if strays := sorted(set(_listed(root / "val", folders=True)) - set(classes)):
        raise UserError(f"{root / 'val'} has classes that train has not: {', '.join(strays[:5])}")
    train = ImageFolder(folder, *_files(root, "train", classes), size, seed)
    test = ImageFolder(folder, *_files(root, "val", classes), size, None)
    return ImageSet(folder, len(classes), size, train, test, IMAGENET_MEAN, IMAGENET_STD)


def _listed(folder: Path, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
            if folders:
                return sorted(entry.name for entry in shown if entry.is_dir())
            return sorted(e.name for e in shown if e.name.lower().endswith(SUFFIXES))
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error


def _files(root: Path, part: str, classes: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of images, such as `train/n01440764/a.JPEG`, and their labels."""
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        folder = root / part / name
        files = _listed(folder, folders=False) if folder.is_dir() else []
        if part == "train" and not files:
            raise UserError(f"{folder} has no images: no file ends in {', '.join(SUFFIXES)}")
        names += [f"{part}/{name}/{file}" for file in files]
        labels += [label] * len(files)
    if not names:
        raise UserError(f"{root / part} has no images: no file ends in {', '.join(SUFFIXES)}")
    return names, np.array(labels, np.int64)


@dataclass(frozen=True)
class ImageFolder:
    """Images in files: with a `seed` random crops, perhaps mirrored, else the center."""

    root: str
    names: list[str]
    labels: NDArray[np.int64]
    size: int
    seed: int | None

    def __len__(self) -> int:
        return len(self.names)

    def read(self, epoch: int, indices: NDArray[np.int64]) -> Images:
        pixels = np.empty((len(indices), self.size, self.size, 3), np.uint8)
        for row, index in enumerate(map(int, indices)):
            rng = None if self.seed is None else np.random.default_rng([self.seed, epoch, index])
            pixels[row] = decode(os.path.join(self.root, self.names[index]), self.size, rng)
        return pixels, self.labels[indices]


def decode(path: str, size: int, rng: np.random.Generator | None) -> NDArray[np.uint8]:
    """Read an image, crop and resize it. Raises `UserError` naming a file that cannot be read."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            box = center_crop(image.size) if rng is None else random_resized_crop(image.size, rng)
            image = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=box)
    except Exception as error:  # on hostile bytes Pillow raises a dozen different types
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UserError(f"cannot read the image {path}: {why}") from error
    pixels = np.asarray(image)
    return pixels[:, ::-1] if rng is not None and rng.integers(2) else pixels


def random_resized_crop(size: tuple[int, int], rng: np.random.Generator) -> tuple[float, ...]:
    """Return left, top, right and bottom of a part of random area, aspect ratio and position."""
    width, height = size
    for _ in range(10):
        area = width * height * rng.uniform(*SCALE)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    return _square(size, min(size))


def center_crop(size: tuple[int, int]) -> tuple[float, ...]:
    return _square(size, min(size) * CENTER)


def _square(size: tuple[int, int], side: float) -> tuple[float, ...]:
    left, top = ((length - side) / 2 for length in size)
    return left, top, left + side, top + side


def load_cifar10(folder: str, seed: int) -> ImageSet:
    """Load CIFAR-10, binary or for Python. Raises `UserError` naming a file and its fault."""
    root = Path(folder)
    for name, suffix in CIFAR_FOLDERS.items():
        for path in (root / name, root):
            files = [path / f"{part}{suffix}" for part in CIFAR_TRAIN + CIFAR_TEST]
            missing = [file.name for file in files if not file.is_file()]
            if not missing:
                *train, test = map(_read_cifar, files)
                pixels, labels = (np.concatenate(arrays) for arrays in zip(*train))
                sets = InMemory(pixels, labels, seed), InMemory(*test, None)
                about = f"CIFAR-10 in {path}", CIFAR_CLASSES, CIFAR_SIZE
                return ImageSet(*about, *sets, CIFAR_MEAN, CIFAR_STD)
            if path.name == name and path.is_dir():
                raise UserError(f"incomplete CIFAR-10 in {path}: no {', '.join(missing)}")
    raise UserError(f"no CIFAR-10 in {root}. Looked for {' and '.join(CIFAR_FOLDERS)}")


def _read_cifar(path: Path) -> Images:
    try:
        data = path.read_bytes()
        if path.suffix == ".bin":  # records of a label of one byte and an image
            records = np.frombuffer(data, np.uint8).reshape(-1, 1 + 3 * CIFAR_SIZE**2)
            planes, labels = records[:, 1:], records[:, 0]
        else:
            batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
            planes, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        planes = planes.reshape(len(labels), 3, CIFAR_SIZE, CIFAR_SIZE)
        if not len(labels) or planes.dtype != np.uint8 or labels.dtype.kind not in "ui":
            raise ValueError(f"images {planes.shape} {planes.dtype}, labels {labels.dtype}")
    except Exception as error:  # on hostile bytes pickle raises a dozen different types
        raise UserError(f"{path} is no batch of CIFAR-10, or damaged: {error}") from error
    wrong = np.flatnonzero((labels < 0) | (labels >= CIFAR_CLASSES))
    if len(wrong):
        fault = f"the label of image {wrong[0]} is {labels[wrong[0]]}"
        raise UserError(f"{path}: {fault}, not 0 to {CIFAR_CLASSES - 1}")
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.int64)


class _Unpickler(pickle.Unpickler):
    """Makes plain arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ARRAYS:
            raise ValueError(f"it wants to run {module}.{name}")
        return super().find_class(module, name)


@dataclass(frozen=True)
class InMemory:
    """Images in memory; with a `seed` each is shifted by a few pixels and perhaps mirrored."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    seed: int | None

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, epoch: int, indices: NDArray[np.int64]) -> Images:
        pixels, size = self.pixels[indices], self.pixels.shape[1]
        if self.seed is not None:
            edges = (0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)
            wide = np.pad(pixels, edges)
            for row, index in enumerate(indices):
                rng = np.random.default_rng([self.seed, epoch, index])
                top, left = rng.integers(2 * PADDING + 1, size=2)
                crop = wide[row, top : top + size, left : left + size]
                pixels[row] = crop[:, ::-1] if rng.integers(2) else crop
        return pixels, self.labels[indices]


def check(args: Namespace) -> Namespace:
    """Complete the settings of a ResNet. Raises `UserError` for what does not go together."""
    cifar = args.model in CIFAR_BLOCKS
    if cifar and args.image_size:
        raise UserError("--image-size is for resnet50: CIFAR-10 has 32 x 32 pixels")
    if not (args.data or args.synthetic):
        kind = "CIFAR-10" if cifar else "an ImageNet folder"
        raise UserError(f"{args.model} needs data: --data DIR with {kind}, or --synthetic")
    args.image_size = args.image_size or (32 if cifar else 224)
    if args.synthetic:
        args.checkpoint_every = args.checkpoint_every or sys.maxsize  # only at the end
    return args


def load(args: Namespace, world: Ranks) -> ImageSet | None:
    """Return the dataset of a ResNet, None for synthetic images. Collective."""
    if args.synthetic:
        return None
    if args.model in CIFAR_BLOCKS:
        return together(world, lambda: load_cifar10(args.data, args.seed))

    def listed() -> ImageSet | None:  # one rank lists the files, for all
        first = world.rank == 0
        return load_imagenet(args.data, args.image_size, args.seed) if first else None

    return world.broadcast(together(world, listed))
