"""MNIST and what has its form: four IDX files, plain or gzipped, or Keras's `mnist.npz`.

IDX (http://yann.lecun.com/exdb/mnist): two zero bytes, type 8 (unsigned byte), the number of
dimensions, then each of them as a big-endian 32-bit number, then the bytes.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

from . import FormatError

#: Parts of the data set, as in the npz, and the IDX files they come in.
IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
NPZ = "mnist.npz"
CLASSES = 10
#: Magic number of an IDX file of unsigned bytes: 0x0800 plus the number of dimensions.
IDX_UBYTE = 0x0800


def places(folder: Path) -> tuple[Path, Path]:
    """Return where the files may lie: the second is where torchvision puts them."""
    return folder, folder / "MNIST" / "raw"


def find(folder: Path, name: str) -> Path | None:
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
