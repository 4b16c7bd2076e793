"""Tokens of a language model (see `recipes.formats.tokens`)."""

from __future__ import annotations

import array
import sys
from pathlib import Path

from recipes.formats import FormatError
from recipes.formats.tokens import CODES, FILES, META, read_meta

from .report import Report

AT_ONCE = 1 << 22  # tokens


def fits(folder: Path) -> bool:
    """Whether the tokens to train on are there."""
    return (folder / FILES[0]).exists()


def check(folder: Path, report: Report) -> None:
    """Look at the description, and at each token against the vocabulary."""
    described = _described(folder, report)
    if described is None:
        return
    vocabulary, kind = described
    report.fact("vocabulary", vocabulary)
    report.fact("dtype", kind)
    for name in FILES:
        _tokens(folder / name, vocabulary, CODES[kind], report)


def _described(folder: Path, report: Report) -> tuple[int, str] | None:
    try:
        return read_meta(folder / META)
    except FileNotFoundError:
        report.fault(META, "missing")
    except FormatError as error:
        report.fault(META, str(error))
    return None


def _tokens(path: Path, vocabulary: int, code: str, report: Report) -> None:
    width = array.array(code).itemsize
    try:
        size = path.stat().st_size
        if size % width or not size:
            report.fault(path.name, f"{size} bytes are no whole number of tokens of {width}")
        report.fact(f"{path.stem} tokens", size // width)
        _below(path, vocabulary, array.array(code), report)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        report.fault(path.name, "missing" if missing else f"cannot be read: {error.strerror}")


def _below(path: Path, vocabulary: int, empty: array.array[int], report: Report) -> None:
    """Note the first token that is not in the vocabulary."""
    with path.open("rb") as file:
        before = 0
        while chunk := file.read(AT_ONCE * empty.itemsize):
            some = array.array(empty.typecode)
            some.frombytes(chunk[: len(chunk) // empty.itemsize * empty.itemsize])
            if sys.byteorder == "big":
                some.byteswap()
            if some and max(some) >= vocabulary:
                wrong = next(i for i, token in enumerate(some) if token >= vocabulary)
                what = f"token {some[wrong]} at {before + wrong} is not below {vocabulary}"
                report.fault(path.name, what)
                return
            before += len(some)
