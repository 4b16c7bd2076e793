"""CIFAR-10 in binary form (see `recipes.formats.cifar`)."""

from __future__ import annotations

from pathlib import Path

from recipes.formats import FormatError
from recipes.formats.cifar import BINARY, CLASSES, FORMS, RECORD, TEST, TRAINING, count_records

from .report import Report

PARTS = {
    part: [f"{name}{FORMS[BINARY]}" for name in names]
    for part, names in (("training", TRAINING), ("test", TEST))
}


def _folder(path: Path) -> Path:
    return path / BINARY if (path / BINARY).is_dir() else path


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
    labels = data[::RECORD]
    if labels and max(labels) >= CLASSES:
        wrong = next(i for i, label in enumerate(labels) if label >= CLASSES)
        report.fault(name, f"label {labels[wrong]} of image {wrong} is not below {CLASSES}")
    try:
        return count_records(data)
    except FormatError as error:
        report.fault(name, str(error))
    return len(data) // RECORD
