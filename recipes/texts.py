"""Labelled texts: those of a folder, or synthetic reviews.

A folder has the files train and test (or validation, dev) as .tsv, .csv or .jsonl with columns
`text` and `label`, or `ratings_train.txt` and `ratings_test.txt` in the form of NSMC
(https://github.com/e9t/nsmc: tab-separated `id`, `document`, `label`). Labels are the whole
numbers from 0. Nothing is downloaded. What is wrong is a `UserError` naming file and line.

Of the synthetic reviews every label is certain: "the food was not bad", label 1. Words tell nothing
alone: what is said is turned round by a negation in half of them, and what comes before "but" does
not count. So a classifier that counts words is right in half, and one that reads in all.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.distributed import UserError

TRAIN_NAMES = ("train", "ratings_train")
TEST_NAMES = ("test", "validation", "dev", "ratings_test")
TEXT, LABEL = ("text", "document", "sentence"), ("label",)  # names of columns
Row = tuple[int, str, str]  # line, text, label
# The synthetic reviews: how many, and of what they are made.
REVIEWS, TEST_REVIEWS = 2048, 512
SUBJECTS = ("food", "film", "room", "music", "staff", "story", "price", "view")
PRAISE = ("good", "great", "lovely", "superb", "pleasant", "perfect")
BLAME = ("bad", "poor", "awful", "dull", "horrid", "ugly")
NEGATIONS = ("not", "never", "hardly")


@dataclass(frozen=True)
class Texts:
    """Texts and their labels, int64, from 0 to `classes` - 1."""

    name: str
    classes: int
    train: list[str]
    y_train: NDArray[np.int64]
    test: list[str]
    y_test: NDArray[np.int64]

    def describe(self) -> str:
        counts = f"{len(self.train)} to learn from, {len(self.test)} to test with"
        return f"{self.name}, {self.classes} classes, {counts}"


def load(folder: str | None) -> Texts:
    """Load the texts of `folder`, or make the synthetic ones if there is none.

    Raises `UserError` naming what was looked for, or the file, line and fault of what is there.
    """
    if not folder:
        train, y_train = sample(REVIEWS, part=1)
        test, y_test = sample(TEST_REVIEWS, part=2)
        return Texts("synthetic reviews", 2, train, np.array(y_train), test, np.array(y_test))
    root = Path(folder)
    train_path, test_path = find(root, TRAIN_NAMES), find(root, TEST_NAMES)
    train, y_train = read(train_path)
    classes = count_classes(y_train, train_path)
    test, y_test = read(test_path, classes)
    return Texts(str(root), classes, train, np.array(y_train), test, np.array(y_test))


def find(root: Path, names: tuple[str, ...]) -> Path:
    """Return the first file there is. Raises `UserError`."""
    if not root.is_dir():
        raise UserError(f"the data folder {root} does not exist or is not a folder.")
    for name in names:
        for suffix in READERS:
            if (root / (name + suffix)).is_file():
                return root / (name + suffix)
    raise UserError(
        f"no texts in {root}. Looked there for {', '.join(names)}, each as {', '.join(READERS)}"
    )


def read(path: Path, classes: int | None = None) -> tuple[list[str], list[int]]:
    """Return the texts of a file and their labels, all below `classes`. Raises `UserError`."""
    texts, labels = [], []
    for line, text, label in READERS[path.suffix](path):
        texts.append(text)
        labels.append(read_label(label, f"{path}, line {line}", classes))
    if not texts:
        raise UserError(f"{path} has no samples.")
    return texts, labels


def read_label(text: str, where: str, classes: int | None) -> int:
    """Return a label. Raises `UserError` for one that is none, or out of range."""
    if not text.isascii() or not text.isdecimal():
        raise UserError(f"{where}: the label is {text!r}, not a whole number from 0")
    label = int(text)
    if classes is not None and label >= classes:
        raise UserError(
            f"{where}: label {label} is out of range: the training set has 0 to {classes - 1}"
        )
    return label


def count_classes(labels: list[int], path: Path) -> int:
    """Return how many labels there are. Raises `UserError` when one is left out, or one is all."""
    highest, known = max(labels), set(labels)
    missing = next((label for label in range(highest) if label not in known), None)
    if missing is not None:
        raise UserError(
            f"{path}: label {highest} is out of range: labels are numbered from 0, and no sample"
            f" has label {missing}"
        )
    if highest == 0:
        raise UserError(f"{path}: all samples have label 0: there is nothing to learn")
    return highest + 1


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, empty ones left out.

    Raises `UserError`, for a file of empty lines too.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    empty = True
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: not UTF-8: {error.reason}") from error
        if text.strip():
            empty = False
            yield number, text
    if empty:
        raise UserError(f"{path} is empty.")


def read_table(path: Path, split: Callable[[str], list[str]]) -> Iterator[Row]:
    """Yield the rows below the line that names the columns. Raises `UserError`."""
    numbered = lines(path)
    _, header = next(numbered)
    columns = [name.strip().lower() for name in split(header)]
    text, label = (_column(columns, names, path) for names in (TEXT, LABEL))
    for number, line in numbered:
        cells = split(line)
        if len(cells) != len(columns):
            raise UserError(
                f"{path}, line {number}: {len(cells)} columns, and the first line names"
                f" {len(columns)}: {', '.join(columns)}"
            )
        yield number, cells[text], cells[label].strip()


def _column(columns: list[str], names: tuple[str, ...], path: Path) -> int:
    for name in names:
        if name in columns:
            return columns.index(name)
    raise UserError(
        f"{path}: no column {' or '.join(names)}: its first line names {', '.join(columns)}"
    )


def read_jsonl(path: Path) -> Iterator[Row]:
    """Yield the rows of a file with a JSON object in each line."""
    for number, line in lines(path):
        yield number, *_members(line, f"{path}, line {number}")


def _members(line: str, where: str) -> tuple[str, str]:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{where}: not a JSON object: {line[:40]}")
    text = next((value[name] for name in TEXT if name in value), None)
    if not isinstance(text, str) or "label" not in value:
        raise UserError(f"{where}: needs a text and a label, has {', '.join(value) or 'nothing'}")
    return text, json.dumps(value["label"])


# Between tabs quotes mean nothing, as in NSMC; between commas a quoted text may hold commas, and no
# line ends.
read_tsv = partial(read_table, split=lambda line: line.split("\t"))
read_csv = partial(read_table, split=lambda line: next(csv.reader([line])))
READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
}


def sample(count: int, part: int) -> tuple[list[str], list[int]]:
    """Return `count` reviews and their labels, 0 or 1; always the same, another `part`, others."""
    generator = np.random.default_rng([3, part])
    texts, labels = [], []
    for _ in range(count):
        text, label = clause(generator)
        if generator.random() < 0.3:
            text = f"{clause(generator)[0]} but {text}"
        texts.append(text)
        labels.append(label)
    return texts, labels


def clause(generator: np.random.Generator) -> tuple[str, int]:
    """Return "the ... was ..." and whether that is praise."""
    praised, negated = generator.random(2) < 0.5
    subject, negation = generator.choice(SUBJECTS), generator.choice(NEGATIONS)
    adjective = generator.choice(PRAISE if praised else BLAME)
    middle = f"{negation} " if negated else ""
    return f"the {subject} was {middle}{adjective}", int(praised != negated)
