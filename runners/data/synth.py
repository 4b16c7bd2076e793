"""Synthetic datasets for trials and tests: of any size, with learnable classes, in the real forms.

An image is its class's pattern under noise; a token mostly follows from the one before it.

CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): six files. A record of the binary form is a
label of one byte and a picture. MNIST: four IDX files (http://yann.lecun.com/exdb/mnist): two zero
bytes, type 8 (unsigned byte), the number of dimensions, then each of them as a big-endian 32-bit
number, then the bytes. Tokens of a language model, as nanoGPT's preparation scripts write them:
`train.bin` and `val.bin`, raw little-endian numbers, and `meta.json`, {"vocabulary": 50257,
"dtype": "uint16"}.
"""

from __future__ import annotations

import array
import json
import random
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core import atomic, disk_space
from ..core.errors import Refused, UsageError

# Bytes of a picture: all red ones, all green ones, all blue ones.
CIFAR_PIXELS = 3 * 32 * 32
CIFAR_TRAINING = [f"data_batch_{number}" for number in range(1, 6)]
CIFAR_TEST = ["test_batch"]
CIFAR_FOLDER, CIFAR_ENDING = "cifar-10-batches-bin", ".bin"
IMAGE_PARTS = ("train", "val")
# Parts of MNIST, as in Keras's mnist.npz, and the IDX files they come in.
IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
IDX_UBYTE = 0x0800  # of an IDX file of unsigned bytes: plus the number of dimensions
TOKENS_FILES, TOKENS_META = ("train.bin", "val.bin"), "meta.json"
DTYPE, CODE = "uint16", "H"
MOST_TOKENS = 2**16  # that a 16-bit number can hold
MOST_CLASSES = {"mnist": 10, "cifar10": 10}
SEED = 0
EDGE = 28  # of MNIST's images, in pixels
# Bytes of a pattern and of noise are at most these, so the sum of two long numbers adds byte by
# byte, without a carry: hundreds of times as quick as a loop over pixels.
BRIGHTEST, NOISE = 191, 63
SURE = 0.8  # how often a token's follower is the one that it says
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class SyntheticSpec:
    """What to make. `samples` are to train on; a fifth as many, at least 1, are to test with.

    `size` is the edge of an image of the ImageNet kind in pixels, `vocabulary` the number of
    different tokens.
    """

    samples: int
    classes: int = 10
    size: int = 64
    vocabulary: int = 256

    @property
    def parts(self) -> tuple[int, int]:
        """The numbers of samples to train on and to test with."""
        return self.samples, max(1, self.samples // 5)


def write(kind: str, folder: Path, spec: SyntheticSpec) -> None:
    """Write a dataset into a new folder atomically.

    Raises UsageError for numbers that make no dataset, Refused where there is something already,
    SystemFault when the disk is full.
    """
    _check(kind, spec)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(
            f"{folder} already exists and is not an empty folder", id="synth-folder-exists"
        )
    with disk_space.writing(folder), atomic.new_folder(folder, 0o777) as part:
        KINDS[kind](part, spec)


def _check(kind: str, spec: SyntheticSpec) -> None:
    for name, value, largest in (
        ("samples", spec.samples, None),
        ("classes", spec.classes, MOST_CLASSES.get(kind)),
        ("size", spec.size, None),
        ("vocabulary", spec.vocabulary, MOST_TOKENS),
    ):
        if value < 1 or (largest is not None and value > largest):
            to = f" to {largest}" if largest is not None else " or more"
            raise UsageError(f"--{name} {value} must be 1{to}", id="synth-number")


def idx_header(shape: Sequence[int]) -> bytes:
    """Return what an IDX file of unsigned bytes begins with."""
    numbers = [IDX_UBYTE + len(shape), *shape]
    return b"".join(number.to_bytes(4, "big") for number in numbers)


class Images:
    """Makes images of `length` bytes in `classes` classes, the same ones each time."""

    def __init__(self, classes: int, length: int) -> None:
        self.random, self.length = random.Random(SEED), length  # noqa: S311  no secret
        self.patterns = [self._pattern() for _ in range(classes)]
        self.mask = int.from_bytes(bytes([NOISE]) * length, "little")

    def _pattern(self) -> int:
        """Runs of 16 bytes of one brightness, so that neighbours are alike as in photographs."""
        runs = [self.random.randint(0, BRIGHTEST) for _ in range(self.length // 16 + 1)]
        return int.from_bytes(b"".join(bytes([run]) * 16 for run in runs)[: self.length], "little")

    def image(self, label: int) -> bytes:
        noise = self.random.getrandbits(8 * self.length) & self.mask
        return (self.patterns[label] + noise).to_bytes(self.length, "little")

    def label(self, number: int) -> int:
        """Return the class of the image of this number: the first ones have each class once."""
        classes = len(self.patterns)
        return number % classes if number < classes else self.random.randrange(classes)


def _mnist(folder: Path, spec: SyntheticSpec) -> None:
    images = Images(spec.classes, EDGE * EDGE)
    for count, part in zip(spec.parts, ("train", "test")):
        numbers = bytes(images.label(number) for number in range(count))
        with (folder / IDX_NAMES[f"x_{part}"]).open("wb") as file:
            file.write(idx_header((count, EDGE, EDGE)))
            file.writelines(images.image(label) for label in numbers)
        (folder / IDX_NAMES[f"y_{part}"]).write_bytes(idx_header((count,)) + numbers)


def _cifar(folder: Path, spec: SyntheticSpec) -> None:
    """Write the five files to train on, which share the samples, and the one to test with."""
    images = Images(spec.classes, CIFAR_PIXELS)
    binary = folder / CIFAR_FOLDER
    binary.mkdir()
    number = 0
    for count, names in zip(spec.parts, (CIFAR_TRAINING, CIFAR_TEST)):
        for position, name in enumerate(names):
            share = count * (position + 1) // len(names) - count * position // len(names)
            with (binary / f"{name}{CIFAR_ENDING}").open("wb") as file:
                for _ in range(share):
                    label = images.label(number)
                    file.write(bytes([label]) + images.image(label))
                    number += 1


def _imagenet(folder: Path, spec: SyntheticSpec) -> None:
    """Write PNGs of `size` x `size` pixels in three colours: train/CLASS/NUMBER.png, val/..."""
    images = Images(spec.classes, 3 * spec.size * spec.size)
    for count, part in zip(spec.parts, IMAGE_PARTS):
        for label in range(min(spec.classes, count)):
            (folder / part / f"n{label:08d}").mkdir(parents=True)
        for number in range(count):
            label = images.label(number)
            path = folder / part / f"n{label:08d}" / f"{number:08d}.png"
            path.write_bytes(_png(images.image(label), spec.size))


def _png(pixels: bytes, edge: int) -> bytes:
    """Return a square RGB image as PNG: a header, zlib's stream of rows, an end.

    Each row is preceded by its filter, 0 for none. Nothing is compressed, since noise cannot be.
    """
    width = 3 * edge
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return PNG + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def _tokens(folder: Path, spec: SyntheticSpec) -> None:
    source = random.Random(SEED)  # noqa: S311  no secret
    follower = [source.randrange(spec.vocabulary) for _ in range(spec.vocabulary)]
    for count, name in zip(spec.parts, TOKENS_FILES):
        with (folder / name).open("wb") as file:
            _text(source, follower, count).tofile(file)
    meta = {"vocabulary": spec.vocabulary, "dtype": DTYPE}
    (folder / TOKENS_META).write_text(json.dumps(meta) + "\n", encoding="utf-8")


def _text(source: random.Random, follower: list[int], count: int) -> array.array[int]:
    text, token = array.array(CODE), 0
    for _ in range(count):
        sure = source.random() < SURE
        token = follower[token] if sure else int(source.random() * len(follower))
        text.append(token)
    if sys.byteorder == "big":
        text.byteswap()
    return text


KINDS = {"mnist": _mnist, "cifar10": _cifar, "imagenet": _imagenet, "tokens": _tokens}
