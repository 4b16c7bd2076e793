"""MNIST and what has its form: four IDX files, plain or gzipped, or Keras's `mnist.npz`.

IDX: two zero bytes, type 8 (unsigned byte), the number of dimensions, then each of them as a
big-endian 32-bit number, then the bytes.
"""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from pathlib import Path

from .report import Report

PARTS = {
    "training": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NPZ = "mnist.npz"
CLASSES = 10


def fits(folder: Path) -> bool:
    """Whether any of its files is there."""
    names = [name for pair in PARTS.values() for name in pair]
    return (folder / NPZ).exists() or any(_file(folder, name) for name in names)


def check(folder: Path, report: Report) -> None:
    """Look at all files, and at images and labels together."""
    if (folder / NPZ).exists():
        _check_npz(folder / NPZ, report)
        return
    for part, (images, labels) in PARTS.items():
        shape, numbers = _read(folder, images, 3, report), _read(folder, labels, 1, report)
        if shape and numbers:
            report.fact(f"{part} images", " x ".join(map(str, shape[0])))
            _together(shape[0], numbers[1], labels, report)


def _file(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)


def _read(
    folder: Path, name: str, dimensions: int, report: Report
) -> tuple[list[int], bytes] | None:
    """Return sizes and content of an IDX file; None when it is noted as wrong."""
    path = _file(folder, name)
    if path is None:
        report.fault(name, "missing")
        return None
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        report.fault(path.name, f"cannot be read: {error}")
        return None
    head = 4 * (1 + dimensions)
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) < head:
        report.fault(path.name, f"no IDX header: it starts with {data[:4].hex(' ') or 'nothing'}")
        return None
    shape = [int.from_bytes(data[i : i + 4], "big") for i in range(4, head, 4)]
    if len(data) - head != math.prod(shape):
        wanted = " x ".join(map(str, shape))
        report.fault(path.name, f"its header promises {wanted} bytes, {len(data) - head} follow")
        return None
    return shape, data[head:]


def _together(shape: list[int], labels: bytes, name: str, report: Report) -> None:
    if shape[0] != len(labels):
        report.fault(name, f"{len(labels)} labels for {shape[0]} images")
    if labels and max(labels) >= CLASSES:
        wrong = next(i for i, label in enumerate(labels) if label >= CLASSES)
        report.fault(name, f"label {labels[wrong]} of image {wrong} is not below {CLASSES}")


def _check_npz(path: Path, report: Report) -> None:
    """An npz file is a zip file, whose members have checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad, names = archive.testzip(), archive.namelist()
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        report.fault(path.name, f"cannot be read: {error}")
        return
    missing = {f"{part}.npy" for part in ("x_train", "y_train", "x_test", "y_test")} - set(names)
    if bad or missing:
        report.fault(path.name, f"{bad} is damaged" if bad else f"lacks {', '.join(missing)}")
    report.fact("arrays", ", ".join(sorted(names)))
