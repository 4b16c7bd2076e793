"""CIFAR-10 from a folder, binary or for Python (see `recipes/formats/cifar.py`).

The folder has `cifar-10-batches-bin` or `cifar-10-batches-py`, as they come out of the archives, or
is one of them. What is read is checked; nothing is downloaded, and no pickle may run anything.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.errors import UserError, reading, require_folder
from recipes.formats import FormatError
from recipes.formats.cifar import (
    CLASSES,
    FORMS,
    PIXELS,
    RECORD,
    SIZE,
    TEST,
    TRAINING,
    count_records,
)
from recipes.pictures import Held, Labels, PictureSet, Pixels

# Of the 50,000 training pictures.
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
# All that the pickles of CIFAR-10 need, by the names that old and new versions of numpy write.
HARMLESS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def load(folder: str, seed: int) -> PictureSet:
    """Load all of CIFAR-10; `seed` decides how the training pictures are shifted and mirrored.

    Raises `UserError` naming what was looked for, or a file and its fault.
    """
    place, suffix = _find(Path(folder))
    train, test = ([_read(place / f"{name}{suffix}") for name in part] for part in (TRAINING, TEST))
    return PictureSet(
        f"CIFAR-10 in {place}", CLASSES, SIZE, _held(train, seed), _held(test), MEAN, DEVIATION
    )


def _held(files: list[tuple[Pixels, Labels]], seed: int | None = None) -> Held:
    pixels = np.concatenate([pixels for pixels, _ in files])
    return Held(pixels, np.concatenate([labels for _, labels in files]), seed)


def _find(root: Path) -> tuple[Path, str]:
    """Return the folder with the batches, and the end of their names."""
    require_folder(root)
    for name, suffix in FORMS.items():
        for place in (root / name, root):
            names = [f"{part}{suffix}" for part in TRAINING + TEST]
            missing = [part for part in names if not (place / part).is_file()]
            if not missing:
                return place, suffix
            if place.name == name and place.is_dir():
                raise UserError(f"incomplete CIFAR-10 in {place}: no {', '.join(missing)}")
    raise UserError(
        f"no CIFAR-10 in {root}. Looked for {' and '.join(FORMS)}, as its archives have them"
    )


def is_in(root: Path) -> bool:
    """Whether a folder has all of CIFAR-10, in either form."""
    try:
        return bool(_find(root))
    except UserError:
        return False


def _read(path: Path) -> tuple[Pixels, Labels]:
    """Read one file; return its pictures and labels. Raises `UserError`."""
    with reading(path):
        data = path.read_bytes()
    rows, labels = _binary(data, path) if path.suffix == ".bin" else _pickled(data, path)
    if labels.min() < 0 or labels.max() >= CLASSES:
        place = int(np.argmax((labels < 0) | (labels >= CLASSES)))
        raise UserError(
            f"{path}: the label of picture {place} is {labels[place]}, not 0 to {CLASSES - 1}"
        )
    planes = rows.reshape(-1, 3, SIZE, SIZE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.int64)


def _binary(data: bytes, path: Path) -> tuple[Pixels, NDArray[Any]]:
    """Take apart records of a label of one byte and a picture."""
    try:
        count_records(data)
    except FormatError as error:
        raise UserError(f"{path} is damaged: {error}. Copy it again.") from error
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


class _Unpickler(pickle.Unpickler):
    """Makes plain arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in HARMLESS:
            raise UserError(f"it wants to run {module}.{name}")
        return super().find_class(module, name)


def _pickled(data: bytes, path: Path) -> tuple[Pixels, NDArray[Any]]:
    """Take apart the form for Python: a pickled dictionary with bytes as keys."""
    try:
        found = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        rows, labels = np.asarray(found[b"data"]), np.asarray(found[b"labels"])
        fits = rows.shape == (len(labels), PIXELS) and labels.ndim == 1 and len(labels) > 0
    except Exception as error:  # on hostile bytes pickle raises a dozen different types
        raise UserError(f"{path} is not of CIFAR-10's form for Python: {error}") from error
    if not fits or rows.dtype != np.uint8 or labels.dtype.kind not in "ui":
        raise UserError(
            f"{path} is no set of labelled pictures: pictures {rows.shape} {rows.dtype}, labels "
            f"{labels.shape} {labels.dtype}"
        )
    return rows, labels
