"""The forms in which data sets come: CIFAR-10, a folder of images by class, MNIST, tokens.

CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): six files, binary or for Python. A record
of the binary form is a label of one byte and a picture.
MNIST and what has its form: four IDX files (http://yann.lecun.com/exdb/mnist), plain or gzipped, or
Keras's `mnist.npz`. IDX: two zero bytes, type 8 (unsigned byte), the number of dimensions, then
each of them as a big-endian 32-bit number, then the bytes.
Tokens of a language model, as nanoGPT's preparation scripts write them: `train.bin` and `val.bin`,
raw little-endian numbers, and `meta.json`, {"vocabulary": 50257, "dtype": "uint16"}.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

CIFAR_SIZE, CIFAR_CLASSES = 32, 10
# Bytes of a picture: all red ones, all green ones, all blue ones.
CIFAR_PIXELS = 3 * CIFAR_SIZE * CIFAR_SIZE
CIFAR_RECORD = 1 + CIFAR_PIXELS
CIFAR_TRAINING = [f"data_batch_{number}" for number in range(1, 6)]
CIFAR_TEST = ["test_batch"]
#: The folders of both forms, as they come out of the archives, and the end of their files' names.
CIFAR_BINARY, CIFAR_PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
CIFAR_FORMS = {CIFAR_BINARY: ".bin", CIFAR_PYTHON: ""}
IMAGE_PARTS = IMAGE_TRAIN, IMAGE_VAL = ("train", "val")
IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png")
#: Parts of the data set, as in the npz, and the IDX files they come in.
IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
MNIST_NPZ = "mnist.npz"
MNIST_CLASSES = 10
#: Magic number of an IDX file of unsigned bytes: 0x0800 plus the number of dimensions.
IDX_UBYTE = 0x0800
TOKENS_FILES = ("train.bin", "val.bin")
TOKENS_META = "meta.json"
#: Kinds of token numbers, as codes of the module array; little-endian on every machine.
TOKENS_CODES = {"uint16": "H", "uint32": "I"}


class FormatError(ValueError):
    """A file is not of its form; the text says why, without the file's name."""


def count_cifar_records(data: bytes) -> int:
    """Return the number of records of a binary file; raise FormatError where there is no whole."""
    count, rest = divmod(len(data), CIFAR_RECORD)
    if rest or not count:
        raise FormatError(f"its {len(data)} bytes are no whole number of records of {CIFAR_RECORD}")
    return count


def mnist_places(folder: Path) -> tuple[Path, Path]:
    """Return where the files may lie: the second is where torchvision puts them."""
    return folder, folder / "MNIST" / "raw"


def find_idx(folder: Path, name: str) -> Path | None:
    """Return an IDX file, plain or gzipped; some sites write `.idx` for `-idx`."""
    for stem in (name, name.replace("-idx", ".idx")):
        for path in (folder / stem, folder / f"{stem}.gz"):
            if path.is_file():
                return path
    return None


def read_idx(path: Path, dimensions: int) -> tuple[tuple[int, ...], bytes]:
    """Return the shape and the bytes of an IDX file.

    Raises FormatError for a wrong header or length; OSError, EOFError and zlib.error pass through.
    """
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    head = 4 * (1 + dimensions)
    numbers = [int.from_bytes(data[i : i + 4], "big") for i in range(0, head, 4)]
    if numbers[:1] != [IDX_UBYTE + dimensions]:
        found = data[:4].hex() or "an empty file"
        raise FormatError(
            f"no IDX header: it starts with {found}, not with {IDX_UBYTE + dimensions:08x}"
        )
    if len(data) < head:
        raise FormatError(f"no IDX header: it ends after {len(data)} bytes")
    # Compared before anybody makes an array: the header of a bad file may claim 2^96 bytes.
    follow = len(data) - head
    if follow != math.prod(numbers[1:]):
        wanted = " x ".join(map(str, numbers[1:]))
        raise FormatError(f"its header promises {wanted} bytes, {follow} follow")
    return tuple(numbers[1:]), data[head:]


def idx_header(shape: Sequence[int]) -> bytes:
    """Return what an IDX file of unsigned bytes begins with."""
    numbers = [IDX_UBYTE + len(shape), *shape]
    return b"".join(number.to_bytes(4, "big") for number in numbers)


def read_token_meta(path: Path, vocabulary: int | None = None) -> tuple[int, str]:
    """Return the size of the vocabulary and the kind of numbers; `vocabulary` goes before its own.

    Raises FileNotFoundError, and FormatError for what is not understood.
    """
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        size, kind = vocabulary or meta["vocabulary"], meta.get("dtype", "uint16")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"has no vocabulary: {type(error).__name__}: {error}") from error
    if not isinstance(size, int) or size < 1 or kind not in TOKENS_CODES:
        raise FormatError(f"vocabulary {size!r}, dtype {kind!r}: not {' or '.join(TOKENS_CODES)}")
    return size, kind
