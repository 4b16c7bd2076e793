"""Tokens for a language model: from a folder, or of a synthetic language.

A folder has train.bin and val.bin, raw little-endian token numbers, and meta.json with
{"vocabulary": 50257, "dtype": "uint16"}, as nanoGPT's preparation scripts write them. Without
meta.json the option `--vocabulary` tells the size, and 16 bits are taken. The files are
memory-mapped: what is read is what is used.

The synthetic language is cheap to make, and its entropy is known exactly. Each token follows from
the one `LAG` positions before it: one of a few successors, with fixed probabilities. With a lag of
2 a model must attend to the right earlier position; the last token alone teaches it nothing. So a
loss near `floor` proves that a transformer has learned.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recipes.distributed import UserError

FILES = ("train.bin", "val.bin")
DTYPES = ("uint16", "uint32")  # little-endian on every machine
# The synthetic language; sizes are in sequences.
SYNTHETIC_TRAINING, SYNTHETIC_TEST = 4096, 256
VOCABULARY = 64
LAG = 2
#: Probabilities of a token's four successors: an entropy of 0.91 nats; all tokens alike have 4.16.
PROBABILITIES = (0.7, 0.15, 0.1, 0.05)


class Sequences(Protocol):
    """Sequences of one token more than the model sees at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class Tokens:
    """A language: to learn from, to test with, and the least possible loss where it is known."""

    name: str
    vocabulary: int
    train: Sequences
    test: Sequences
    floor: float | None = None

    def describe(self) -> str:
        floor = "" if self.floor is None else f", floor of the loss {self.floor:.4f}"
        return (
            f"{self.name}, vocabulary {self.vocabulary}, {len(self.train)} training and "
            f"{len(self.test)} test sequences{floor}"
        )


class Windows:
    """A token file cut into sequences of `context` + 1 tokens, of which neighbours share one.

    So every token but the first is predicted exactly once; a short end is left out.
    Raises `UserError` naming the file and its fault.
    """

    def __init__(self, path: Path, dtype: str, context: int, vocabulary: int) -> None:
        self.path, self.context, self.vocabulary = path, context, vocabulary
        kind = np.dtype(f"<u{2 if dtype == 'uint16' else 4}")
        try:
            size = path.stat().st_size
            if size % kind.itemsize:
                raise UserError(
                    f"{path} is truncated or no file of {kind.name} tokens: its {size} bytes are "
                    f"not a multiple of {kind.itemsize}"
                )
            if size // kind.itemsize <= context:
                raise UserError(
                    f"{path} is too short: it has {size // kind.itemsize} tokens, and one sequence "
                    f"needs {context + 1}. Give a smaller --context."
                )
            self.tokens: NDArray[Any] = np.memmap(path, kind, mode="r")
        except OSError as error:
            raise UserError(f"cannot read the tokens in {path}: {error.strerror}") from error

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return sequences as int64 (count, context + 1).

        Raises `UserError` naming the first token among them that is not in the vocabulary.
        """
        starts = np.asarray(indices, np.int64)[:, None] * self.context
        ids: NDArray[np.int64] = self.tokens[starts + np.arange(self.context + 1)].astype(np.int64)
        if ids.size and ids.max() >= self.vocabulary:
            row, column = np.argwhere(ids >= self.vocabulary)[0]
            raise UserError(
                f"{self.path}: token {ids[row, column]} at position {starts[row, 0] + column} is "
                f"not in the vocabulary of {self.vocabulary} (0 to {self.vocabulary - 1})"
            )
        return ids


def load(folder: str | None, context: int, vocabulary: int | None) -> Tokens:
    """Open the tokens in `folder`, or make the synthetic language if there is none.

    `vocabulary` goes before that of meta.json. Raises `UserError` naming what is missing or wrong.
    """
    if not folder:
        return synthetic(context)
    root = Path(folder)
    if not root.is_dir():
        raise UserError(f"the data folder {root} does not exist or is not a folder.")
    missing = [name for name in FILES if not (root / name).is_file()]
    if missing:
        raise UserError(
            f"no {' and no '.join(missing)} in {root}: needed are train.bin and val.bin, raw "
            "little-endian token numbers, and meta.json"
        )
    size, dtype = _meta(root / "meta.json", vocabulary)
    train, test = (Windows(root / name, dtype, context, size) for name in FILES)
    return Tokens(str(root), size, train, test)


def synthetic(context: int) -> Tokens:
    train = sample(SYNTHETIC_TRAINING, context + 1, part=1)
    test = sample(SYNTHETIC_TEST, context + 1, part=2)
    return Tokens("a synthetic language", VOCABULARY, train, test, floor(context + 1))


def _meta(path: Path, vocabulary: int | None) -> tuple[int, str]:
    """Return the size of the vocabulary, and the type of the numbers."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        size, dtype = vocabulary or meta["vocabulary"], meta.get("dtype", "uint16")
        if not isinstance(size, int) or size < 1 or dtype not in DTYPES:
            raise ValueError(f"vocabulary {size!r}, dtype {dtype!r}")
    except FileNotFoundError:
        if vocabulary is not None:
            return vocabulary, "uint16"
        raise UserError(
            f"{path} is missing, so the size of the vocabulary is unknown. Say it, for tokens "
            "of 16 bits: --vocabulary 50257 (that is GPT-2's)"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f'{path} must say something like {{"vocabulary": 50257, "dtype": "uint16"}}; '
            f"possible types: {', '.join(DTYPES)}"
        ) from error
    return size, dtype


def successors() -> NDArray[np.int64]:
    """Return the language itself: for each token its possible successors, likeliest first."""
    generator = np.random.default_rng(0)
    rows = [generator.permutation(VOCABULARY)[: len(PROBABILITIES)] for _ in range(VOCABULARY)]
    return np.stack(rows)


def sample(count: int, length: int, part: int) -> NDArray[np.int64]:
    """Return `count` sequences of `length` tokens, always the same; another `part`, other ones."""
    table, generator = successors(), np.random.default_rng([1, part])
    text = generator.integers(VOCABULARY, size=(count, length))
    which = generator.choice(len(PROBABILITIES), size=(count, length), p=PROBABILITIES)
    for position in range(LAG, length):
        text[:, position] = table[text[:, position - LAG], which[:, position]]
    return text


def floor(length: int) -> float:
    """Return the least mean loss, in nats per token, when all but a sequence's first are predicted.

    The first `LAG` tokens are independent: predicting one costs ln(VOCABULARY).
    """
    entropy = -sum(p * math.log(p) for p in PROBABILITIES)
    free = LAG - 1
    return (free * math.log(VOCABULARY) + (length - LAG) * entropy) / (length - 1)
