"""Tokens on disk: which are refused, and that each is seen once; the synthetic language."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from recipes import tokens
from recipes.distributed import UserError

from .. import sentences

CONTEXT = 8


def folder(path: Path, count: int = 100, dtype: str = "uint16", meta: bool = True) -> Path:
    """Write tokens 0, 1, 2 ... 49, 0, 1 ... as a data folder."""
    for name, length in (("train.bin", count), ("val.bin", 20)):
        (np.arange(length) % 50).astype(np.dtype(dtype).newbyteorder("<")).tofile(path / name)
    if meta:
        (path / "meta.json").write_text(json.dumps({"vocabulary": 50, "dtype": dtype}))
    return path


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_every_token_but_the_first_is_guessed_once(tmp_path: Path, dtype: str) -> None:
    data = tokens.load(str(folder(tmp_path, 97, dtype)), CONTEXT, None)
    assert (len(data.train), len(data.test), data.vocabulary) == (12, 2, 50)
    text = data.train[np.arange(12)]
    assert text.shape == (12, CONTEXT + 1)
    assert text.dtype == np.int64
    assert (text[:, 1:].ravel() == np.arange(1, 97) % 50).all()
    assert (text[1:, 0] == text[:-1, -1]).all()
    assert data.train[np.arange(0)].shape == (0, CONTEXT + 1)


def test_without_meta_json_the_option_tells(tmp_path: Path) -> None:
    path = str(folder(tmp_path, meta=False))
    with sentences.refuses(UserError):
        tokens.load(path, CONTEXT, None)
    assert tokens.load(path, CONTEXT, 64).vocabulary == 64


def test_the_option_goes_before_meta_json(tmp_path: Path) -> None:
    assert tokens.load(str(folder(tmp_path)), CONTEXT, 64).vocabulary == 64


def test_a_token_above_the_vocabulary_is_named_with_its_position(tmp_path: Path) -> None:
    data = tokens.load(str(folder(tmp_path)), CONTEXT, 45)
    assert data.train[np.array([0, 1, 2])].max() < 45
    with sentences.refuses(UserError):
        data.train[np.array([1, 5])]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.bin", b"abc"),
        ("val.bin", b"ab" * 8),
        ("val.bin", b""),
        ("meta.json", b"{"),
        ("meta.json", b"[]"),
        ("meta.json", b'{"vocabulary": "x"}'),
        ("meta.json", b'{"vocabulary": 5, "dtype": "int8"}'),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes) -> None:
    (folder(tmp_path) / name).write_bytes(content)
    with sentences.refuses(UserError) as caught:
        tokens.load(str(tmp_path), CONTEXT, None)
    assert str(tmp_path / name) in str(caught.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with sentences.refuses(UserError):
        tokens.load(str(tmp_path / "nowhere"), CONTEXT, None)
    with sentences.refuses(UserError):
        tokens.load(str(tmp_path), CONTEXT, None)


def test_the_synthetic_language_has_a_floor() -> None:
    data = tokens.load(None, CONTEXT, None)
    assert data.floor is not None
    assert data.describe().endswith(f"floor of the loss {data.floor:.4f}")
    assert data.train[np.arange(3)].shape == (3, CONTEXT + 1)


def test_floor_is_the_loss_of_one_who_knows_the_language() -> None:
    length = 33
    table, text = tokens.successors(), tokens.sample(4000, length, part=1)
    before, now = text[:, : -tokens.LAG], text[:, tokens.LAG :]
    chance = (table[before] == now[..., None]) @ np.array(tokens.PROBABILITIES)
    first = (tokens.LAG - 1) * math.log(tokens.VOCABULARY)
    loss = (first + -np.log(chance).mean() * (length - tokens.LAG)) / (length - 1)
    assert loss == pytest.approx(tokens.floor(length), abs=0.01)


def test_text_is_reproducible_and_its_parts_differ() -> None:
    once, again = tokens.sample(4, 9, part=1), tokens.sample(4, 9, part=1)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, tokens.sample(4, 9, part=2))
    assert once.min() >= 0
    assert once.max() < tokens.VOCABULARY
