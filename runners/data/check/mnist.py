"""MNIST and what has its form (see `recipes.formats.mnist`)."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from recipes.formats import FormatError
from recipes.formats.mnist import CLASSES, IDX_NAMES, NPZ, find, places, read_idx

from .report import Report

PARTS = {"training": ("x_train", "y_train"), "test": ("x_test", "y_test")}


def fits(folder: Path) -> bool:
    """Whether any of its files is there."""
    return _place(folder) is not None


def check(folder: Path, report: Report) -> None:
    """Look at all files, and at images and labels together."""
    place = _place(folder) or folder
    if (place / NPZ).exists():
        _check_npz(place / NPZ, report)
        return
    for part, (images, labels) in PARTS.items():
        pixels, numbers = _read(place, images, 3, report), _read(place, labels, 1, report)
        if pixels and numbers:
            report.fact(f"{part} images", " x ".join(map(str, pixels[0])))
            _together(pixels[0], numbers[1], IDX_NAMES[labels], report)


def _place(folder: Path) -> Path | None:
    names = IDX_NAMES.values()
    return next(
        (
            place
            for place in places(folder)
            if (place / NPZ).exists() or any(find(place, name) for name in names)
        ),
        None,
    )


def _read(
    folder: Path, part: str, dimensions: int, report: Report
) -> tuple[tuple[int, ...], bytes] | None:
    """Return sizes and content of an IDX file; None when it is noted as wrong."""
    path = find(folder, IDX_NAMES[part])
    if path is None:
        report.fault(IDX_NAMES[part], "missing")
        return None
    try:
        return read_idx(path, dimensions)
    except FormatError as error:
        report.fault(path.name, str(error))
    except (OSError, EOFError, zlib.error) as error:
        report.fault(path.name, f"cannot be read: {error}")
    return None


def _together(shape: tuple[int, ...], labels: bytes, name: str, report: Report) -> None:
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
    missing = {f"{part}.npy" for part in IDX_NAMES} - set(names)
    if bad or missing:
        report.fault(path.name, f"{bad} is damaged" if bad else f"lacks {', '.join(missing)}")
    report.fact("arrays", ", ".join(sorted(names)))
