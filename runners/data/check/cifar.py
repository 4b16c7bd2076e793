"""CIFAR-10 in binary form: records of a label and 3 x 32 x 32 bytes, in six files."""

from __future__ import annotations

from pathlib import Path

from .report import Report

INNER = "cifar-10-batches-bin"
PARTS = {"training": [f"data_batch_{n}.bin" for n in range(1, 6)], "test": ["test_batch.bin"]}
RECORD = 1 + 3 * 32 * 32
CLASSES = 10


def _folder(path: Path) -> Path:
    return path / INNER if (path / INNER).is_dir() else path


def fits(folder: Path) -> bool:
    """Whether any of its files is there."""
    inner = _folder(folder)
    return any((inner / name).exists() for names in PARTS.values() for name in names)


def check(folder: Path, report: Report) -> None:
    """Look at the size of each file and at each label."""
    inner = _folder(folder)
    for part, names in PARTS.items():
        found = [_records(inner / name, str(inner.name), report) for name in names]
        report.fact(f"{part} images", f"{sum(found)} x 3 x 32 x 32")


def _records(path: Path, inner: str, report: Report) -> int:
    name = f"{inner}/{path.name}"
    try:
        data = path.read_bytes()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        report.fault(name, "missing" if missing else f"cannot be read: {error.strerror}")
        return 0
    count, rest = divmod(len(data), RECORD)
    if rest or not count:
        report.fault(name, f"{len(data)} bytes are no whole number of records of {RECORD}")
    labels = data[::RECORD]
    if labels and max(labels) >= CLASSES:
        wrong = next(i for i, label in enumerate(labels) if label >= CLASSES)
        report.fault(name, f"label {labels[wrong]} of image {wrong} is not below {CLASSES}")
    return count
