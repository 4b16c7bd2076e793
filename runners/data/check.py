"""Is a dataset whole: counts, sizes against headers, labels. Pure reading.

Each kind has a function that returns whether a folder is one, and then looks at all of it.
"""

from __future__ import annotations

import array
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import formats
from .formats import FormatError

CIFAR_FILES = {
    part: [f"{name}{formats.CIFAR_FORMS[formats.CIFAR_BINARY]}" for name in names]
    for part, names in (("training", formats.CIFAR_TRAINING), ("test", formats.CIFAR_TEST))
}
MNIST_FILES = {"training": ("x_train", "y_train"), "test": ("x_test", "y_test")}
TOKENS_AT_ONCE = 1 << 22


@dataclass
class Report:
    """Grows while a dataset is looked at. `kind` is "unknown" where nothing fits.

    `faults` are the files that are wrong, by their path below the dataset, each with what is wrong.
    """

    kind: str = "unknown"
    facts: dict[str, Any] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, file: str, what: str) -> None:
        self.faults.append((file, what))

    @contextmanager
    def reading(self, file: str) -> Iterator[None]:
        """Note a file that is not there, is not of its form, or cannot be read; then go on."""
        try:
            yield
        except FileNotFoundError:
            self.fault(file, "missing")
        except FormatError as error:
            self.fault(file, str(error))
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            self.fault(file, f"cannot be read: {getattr(error, 'strerror', None) or error}")

    def labels(self, file: str, labels: bytes, classes: int) -> None:
        """Note the first label, a byte each, that no class has."""
        if labels and max(labels) >= classes:
            wrong = next(i for i, label in enumerate(labels) if label >= classes)
            self.fault(file, f"label {labels[wrong]} of image {wrong} is not below {classes}")


def folder(path: Path, report: Report) -> None:
    """Find out of what kind a dataset is, and look at all of it."""
    for name, check in KINDS.items():
        if check(path, report):
            report.kind = name
            return
    report.facts["entries"] = len(list(path.iterdir()))


def _cifar(folder: Path, report: Report) -> bool:
    """Look at the size of each file and at each label."""
    inner = folder / formats.CIFAR_BINARY if (folder / formats.CIFAR_BINARY).is_dir() else folder
    if not any((inner / name).exists() for names in CIFAR_FILES.values() for name in names):
        return False
    for part, names in CIFAR_FILES.items():
        found = sum(_cifar_images(inner / name, report) for name in names)
        report.facts[f"{part} images"] = f"{found} x 3 x 32 x 32"
    return True


def _cifar_images(path: Path, report: Report) -> int:
    name, data = f"{path.parent.name}/{path.name}", b""
    with report.reading(name):
        data = path.read_bytes()
        report.labels(name, data[:: formats.CIFAR_RECORD], formats.CIFAR_CLASSES)
        formats.count_cifar_records(data)
    return len(data) // formats.CIFAR_RECORD


def _mnist(folder: Path, report: Report) -> bool:
    """Look at all files, and at images and labels together."""
    for place in formats.mnist_places(folder):
        if (place / formats.MNIST_NPZ).exists():
            _npz(place / formats.MNIST_NPZ, report)
            return True
        if any(formats.find_idx(place, name) for name in formats.IDX_NAMES.values()):
            _idx_files(place, report)
            return True
    return False


def _idx_files(place: Path, report: Report) -> None:
    for part, (images, labels) in MNIST_FILES.items():
        pixels, numbers = _idx(place, images, 3, report), _idx(place, labels, 1, report)
        if pixels and numbers:
            shape, name = pixels[0], formats.IDX_NAMES[labels]
            report.facts[f"{part} images"] = " x ".join(map(str, shape))
            if shape[0] != len(numbers[1]):
                report.fault(name, f"{len(numbers[1])} labels for {shape[0]} images")
            report.labels(name, numbers[1], formats.MNIST_CLASSES)


def _idx(
    folder: Path, part: str, dimensions: int, report: Report
) -> tuple[tuple[int, ...], bytes] | None:
    """Return sizes and content of an IDX file; None when it is noted as wrong."""
    name = formats.IDX_NAMES[part]
    path = formats.find_idx(folder, name) or folder / name
    with report.reading(path.name):
        return formats.read_idx(path, dimensions)
    return None


def _npz(path: Path, report: Report) -> None:
    """An npz file is a zip file, whose members have checksums."""
    with report.reading(path.name), zipfile.ZipFile(path) as archive:
        bad, names = archive.testzip(), archive.namelist()
        missing = {f"{part}.npy" for part in formats.IDX_NAMES} - set(names)
        if bad or missing:
            report.fault(path.name, f"{bad} is damaged" if bad else f"lacks {', '.join(missing)}")
        report.facts["arrays"] = ", ".join(sorted(names))


def _tokens(folder: Path, report: Report) -> bool:
    """Look at the description, and at each token against the vocabulary."""
    if not (folder / formats.TOKENS_FILES[0]).exists():
        return False
    with report.reading(formats.TOKENS_META):
        vocabulary, kind = formats.read_token_meta(folder / formats.TOKENS_META)
        report.facts.update({"vocabulary": vocabulary, "dtype": kind})
        for name in formats.TOKENS_FILES:
            with report.reading(name):
                _tokens_below(folder / name, vocabulary, formats.TOKENS_CODES[kind], report)
    return True


def _tokens_below(path: Path, vocabulary: int, code: str, report: Report) -> None:
    """Note a file that ends within a token, and the first token that no vocabulary has."""
    width, size, before = array.array(code).itemsize, path.stat().st_size, 0
    if size % width or not size:
        report.fault(path.name, f"{size} bytes are no whole number of tokens of {width}")
    report.facts[f"{path.stem} tokens"] = size // width
    for some in _chunks(path, code):
        if max(some) >= vocabulary:
            wrong = next(i for i, token in enumerate(some) if token >= vocabulary)
            what = f"token {some[wrong]} at {before + wrong} is not below {vocabulary}"
            report.fault(path.name, what)
            return
        before += len(some)


def _chunks(path: Path, code: str) -> Iterator[array.array[int]]:
    width = array.array(code).itemsize
    with path.open("rb") as file:
        while len(chunk := file.read(TOKENS_AT_ONCE * width)) >= width:
            some = array.array(code, chunk[: len(chunk) // width * width])
            if sys.byteorder == "big":
                some.byteswap()
            yield some


def _imagefolder(folder: Path, report: Report) -> bool:
    """Count images and classes; a manifest's checksums tell whether each image is whole."""
    images = {
        part: [each for each in (folder / part).glob("*/**/*") if _is_image(each)]
        for part in formats.IMAGE_PARTS
    }
    for part, paths in images.items():
        report.facts[f"{part} images"] = len(paths)
        report.facts[f"{part} classes"] = len({path.parent.name for path in paths})
    return any(images.values())


def _is_image(path: Path) -> bool:
    return path.name.lower().endswith(formats.IMAGE_SUFFIXES)


# The first one that fits is it.
KINDS = {"mnist": _mnist, "cifar10": _cifar, "tokens": _tokens, "imagefolder": _imagefolder}
