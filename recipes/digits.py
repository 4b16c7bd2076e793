"""Handwritten digits: those that scikit-learn ships, or MNIST from a folder of the user's.

MNIST comes as four IDX files, plain or gzipped, or as Keras's mnist.npz. What is read is checked
first: a file that is truncated or is not what its name says is a `UserError`, whatever its bytes.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.distributed import UserError

#: Parts of the dataset, as in the npz, and the IDX files they come in.
IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
NPZ = "mnist.npz"
IDX_UBYTE = 0x0800  # magic number of unsigned bytes, plus the number of dimensions
CLASSES = 10
SPLIT_SEED = 20  # fixed: a result must not change because another test set was drawn


@dataclass(frozen=True)
class Digits:
    """Images as float32 (count, height, width) in 0 to 1, and their labels as int64."""

    name: str
    x_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Number of classes: 10, or more for a data set in the same form, such as EMNIST."""
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @property
    def height(self) -> int:
        return int(self.x_train.shape[1])

    @property
    def width(self) -> int:
        return int(self.x_train.shape[2])

    def describe(self) -> str:
        return f"{self.name}, {len(self.y_train)} to learn from, {len(self.y_test)} to test with"


def load(folder: str | None) -> Digits:
    """Load MNIST from `folder`, or scikit-learn's digits if there is none.

    Raises `UserError` naming what was looked for if the folder has no data set, and naming the
    file and its fault if it has a bad one.
    """
    if not folder:
        return load_digits()
    root = Path(folder)
    try:
        parts = _read_folder(root)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read the data in {root}: {error}") from error
    _check(parts, root)
    x_train, x_test = (_scaled(parts[key], 255) for key in ("x_train", "x_test"))
    y_train, y_test = (parts[key].astype(np.int64) for key in ("y_train", "y_test"))
    return Digits(str(root), x_train, y_train, x_test, y_test)


def load_digits() -> Digits:
    """Load the 1,797 handwritten digits of 8 x 8 pixels that scikit-learn ships.

    Their file is read as `sklearn.datasets.load_digits` reads it. To import scikit-learn and SciPy
    takes a second of each rank's CPU, and thousands of files; to read the file takes 15 ms.
    Raises `UserError` without scikit-learn.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise UserError("these digits come with scikit-learn, which is missing; or give --data DIR")
    folder = Path(package.submodule_search_locations[0])
    rows = np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    x, y = _scaled(rows[:, :-1].reshape(-1, 8, 8), 16), rows[:, -1].astype(np.int64)
    train, test = stratified_split(y, test_fraction=0.2, seed=SPLIT_SEED)
    return Digits("scikit-learn digits", x[train], y[train], x[test], y[test])


def stratified_split(
    labels: NDArray[np.int64], test_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return indices of a training and a test set, with the same share of every class in both."""
    generator = np.random.default_rng(seed)
    test = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        test.append(members[: round(len(members) * test_fraction)])
    chosen = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def _scaled(images: NDArray[Any], white: int) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = images.astype(np.float32) / np.float32(white)
    return scaled


def _read_folder(root: Path) -> dict[str, NDArray[Any]]:
    if not root.is_dir():
        raise UserError(f"the data folder {root} does not exist or is not a folder.")
    for folder in (root, root / "MNIST" / "raw"):  # the second is torchvision's
        if (folder / NPZ).is_file():
            return read_npz(folder / NPZ)
        paths = {part: _find(folder, name) for part, name in IDX_NAMES.items()}
        if missing := [IDX_NAMES[part] for part, path in paths.items() if path is None]:
            if len(missing) == len(paths):
                continue
            raise UserError(f"incomplete MNIST: {missing[0]}[.gz] is missing in {folder}")
        return {part: read_idx(path, 3 if part[0] == "x" else 1) for part, path in paths.items()}
    wanted = "\n  ".join([NPZ, *(f"{name}[.gz]" for name in IDX_NAMES.values())])
    raise UserError(f"no MNIST in {root}. Looked there and in MNIST/raw for\n  {wanted}")


def _find(folder: Path, name: str) -> Any:
    """Return the path of an IDX file; some sites write `.idx` for `-idx`."""
    names = [f"{stem}{end}" for stem in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    return next((folder / candidate for candidate in names if (folder / candidate).is_file()), None)


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes. Raises `UserError` for a wrong header or length."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    head = 4 * (1 + dimensions)
    numbers = [int.from_bytes(data[i : i + 4], "big") for i in range(0, head, 4)]
    fault = ""
    if numbers[0] != IDX_UBYTE + dimensions:
        start = data[:4].hex() or "an empty file"
        fault = f"it starts with {start}, not with {IDX_UBYTE + dimensions:08x}"
    elif len(data) < head:
        fault = f"it ends after {len(data)} bytes"
    elif len(data) - head != math.prod(numbers[1:]):  # compared before an array is made
        wanted = " x ".join(map(str, numbers[1:]))
        fault = f"its header promises {wanted} bytes, {len(data) - head} follow"
    if fault:
        raise UserError(f"{path} is damaged or no IDX file: {fault}. Copy it again.")
    return np.frombuffer(data[head:], np.uint8).reshape(numbers[1:])


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read Keras's `mnist.npz`. Raises `UserError` if it is damaged or lacks an array."""
    try:
        with np.load(path, allow_pickle=False) as archive:  # a pickle could run anything
            # np.asarray: what is no array comes out as bytes, and `_check` needs an array.
            return {part: np.asarray(archive[part]) for part in IDX_NAMES}
    except KeyError as error:
        raise UserError(f"{path}: {error.args[0]}; needed: {', '.join(IDX_NAMES)}") from None
    except Exception as error:  # on hostile bytes numpy and zipfile raise a dozen different types
        raise UserError(f"{path} is no npz file of plain arrays, or is damaged: {error}") from error


def _check(parts: dict[str, NDArray[Any]], root: Path) -> None:
    """Raise `UserError` unless the four arrays fit together as images with labels."""
    for split in ("train", "test"):
        images, labels = parts[f"x_{split}"], parts[f"y_{split}"]
        fits = images.ndim == 3 and labels.shape == images.shape[:1] and images.size > 0
        if not fits or images.dtype != np.uint8 or labels.dtype.kind not in "ui":
            raise UserError(
                f"the {split} part in {root} is no set of labelled images: images "
                f"{images.shape} {images.dtype}, labels {labels.shape} {labels.dtype}"
            )
        _check_labels(labels, parts["y_train"], f"the {split} labels in {root}")
    if parts["x_train"].shape[1:] != parts["x_test"].shape[1:]:
        raise UserError(f"training and test images in {root} differ in size")


def _check_labels(labels: NDArray[Any], learned: NDArray[Any], subject: str) -> None:
    """Raise `UserError` for a label of none of the ten digits, nor of a larger set's classes.

    Larger sets in this form, such as EMNIST with up to 62, have samples of all classes in between.
    """
    classes = np.unique(learned)
    known = classes if len(classes) > CLASSES and np.ptp(classes) < len(classes) else range(CLASSES)
    strange = np.flatnonzero(~np.isin(labels, list(known)))
    if len(strange):
        raise UserError(
            f"{subject} are out of range: sample {strange[0]} has the label {labels[strange[0]]}, "
            f"and {len(strange)} of {len(labels)} are none of {min(known)} to {max(known)}"
        )
