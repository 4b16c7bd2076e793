"""Is a dataset whole: counts, sizes against headers, labels, images. Pure reading.

Each kind has a function that looks whether a folder is one, and one that looks at all of it.
"""

from __future__ import annotations

import array
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from recipes.formats import FormatError, cifar, mnist, tokens

from . import check_images

CIFAR_FILES = {
    part: [f"{name}{cifar.FORMS[cifar.BINARY]}" for name in names]
    for part, names in (("training", cifar.TRAINING), ("test", cifar.TEST))
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
        """Note a file that is wrong."""
        self.faults.append((file, what))

    def unreadable(self, file: str, error: Exception) -> None:
        """Note a file that could not be read, or is not there."""
        missing = isinstance(error, FileNotFoundError)
        words = getattr(error, "strerror", None) or error
        self.fault(file, "missing" if missing else f"cannot be read: {words}")

    def labels(self, file: str, labels: bytes, classes: int) -> None:
        """Note the first label, a byte each, that no class has."""
        if labels and max(labels) >= classes:
            wrong = next(i for i, label in enumerate(labels) if label >= classes)
            self.fault(file, f"label {labels[wrong]} of image {wrong} is not below {classes}")


def folder(path: Path, report: Report) -> None:
    """Find out of what kind a dataset is, and look at all of it."""
    for name, (fits, check) in KINDS.items():
        if fits(path):
            report.kind = name
            check(path, report)
            return
    report.facts["entries"] = len(list(path.iterdir()))


def _cifar_folder(path: Path) -> Path:
    return path / cifar.BINARY if (path / cifar.BINARY).is_dir() else path


def _is_cifar(folder: Path) -> bool:
    names = [name for part in CIFAR_FILES.values() for name in part]
    return any((_cifar_folder(folder) / name).exists() for name in names)


def _cifar(folder: Path, report: Report) -> None:
    """Look at the size of each file and at each label."""
    for part, names in CIFAR_FILES.items():
        found = [_cifar_images(_cifar_folder(folder) / name, report) for name in names]
        report.facts[f"{part} images"] = f"{sum(found)} x 3 x 32 x 32"


def _cifar_images(path: Path, report: Report) -> int:
    name = f"{path.parent.name}/{path.name}"
    try:
        data = path.read_bytes()
        report.labels(name, data[:: cifar.RECORD], cifar.CLASSES)
        return cifar.count_records(data)
    except OSError as error:
        report.unreadable(name, error)
        return 0
    except FormatError as error:
        report.fault(name, str(error))
        return len(data) // cifar.RECORD


def _mnist_folder(folder: Path) -> Path | None:
    for place in mnist.places(folder):
        if (place / mnist.NPZ).exists():
            return place
        if any(mnist.find(place, name) for name in mnist.IDX_NAMES.values()):
            return place
    return None


def _is_mnist(folder: Path) -> bool:
    return _mnist_folder(folder) is not None


def _mnist(folder: Path, report: Report) -> None:
    """Look at all files, and at images and labels together."""
    place = _mnist_folder(folder) or folder
    if (place / mnist.NPZ).exists():
        _npz(place / mnist.NPZ, report)
        return
    for part, (images, labels) in MNIST_FILES.items():
        pixels, numbers = _idx(place, images, 3, report), _idx(place, labels, 1, report)
        if pixels and numbers:
            shape, name = pixels[0], mnist.IDX_NAMES[labels]
            report.facts[f"{part} images"] = " x ".join(map(str, shape))
            if shape[0] != len(numbers[1]):
                report.fault(name, f"{len(numbers[1])} labels for {shape[0]} images")
            report.labels(name, numbers[1], mnist.CLASSES)


def _idx(
    folder: Path, part: str, dimensions: int, report: Report
) -> tuple[tuple[int, ...], bytes] | None:
    """Return sizes and content of an IDX file; None when it is noted as wrong."""
    path = mnist.find(folder, mnist.IDX_NAMES[part])
    if path is None:
        report.fault(mnist.IDX_NAMES[part], "missing")
        return None
    try:
        return mnist.read_idx(path, dimensions)
    except FormatError as error:
        report.fault(path.name, str(error))
    except (OSError, EOFError, zlib.error) as error:
        report.unreadable(path.name, error)
    return None


def _npz(path: Path, report: Report) -> None:
    """An npz file is a zip file, whose members have checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad, names = archive.testzip(), archive.namelist()
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        report.unreadable(path.name, error)
        return
    missing = {f"{part}.npy" for part in mnist.IDX_NAMES} - set(names)
    if bad or missing:
        report.fault(path.name, f"{bad} is damaged" if bad else f"lacks {', '.join(missing)}")
    report.facts["arrays"] = ", ".join(sorted(names))


def _are_tokens(folder: Path) -> bool:
    return (folder / tokens.FILES[0]).exists()


def _tokens(folder: Path, report: Report) -> None:
    """Look at the description, and at each token against the vocabulary."""
    try:
        vocabulary, kind = tokens.read_meta(folder / tokens.META)
    except FileNotFoundError as error:
        report.unreadable(tokens.META, error)
        return
    except FormatError as error:
        report.fault(tokens.META, str(error))
        return
    report.facts.update({"vocabulary": vocabulary, "dtype": kind})
    for name in tokens.FILES:
        try:
            _tokens_below(folder / name, vocabulary, tokens.CODES[kind], report)
        except OSError as error:
            report.unreadable(name, error)


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


def _images(folder: Path, report: Report) -> None:
    facts, faults = check_images.look(folder)
    report.facts.update(facts)
    report.faults += faults


KINDS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, Report], None]]] = {
    "mnist": (_is_mnist, _mnist),
    "cifar10": (_is_cifar, _cifar),
    "tokens": (_are_tokens, _tokens),
    "imagefolder": (check_images.fits, _images),
}
