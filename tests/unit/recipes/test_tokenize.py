"""What is no text, where a text is split, and that a folder gets all of its tokens or nothing.

Its tokenizer is the image's: tests/real/test_tokenize.py.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from recipes import tokenize
from recipes.distributed import UserError

from .. import sentences


@pytest.mark.parametrize(
    ("content", "split"),
    [
        (b"a\n" * 10, 18),  # at nine tenths
        (b"a\n" * 9 + b"a long last line", 18),  # the last line at least
        ("क्षत्रिय\r\n".encode() * 100 + "अन्त".encode(), 2366),  # bytes, never within a character
        (b"\n" * 50 + b"end", 48),
    ],
)
def test_a_text_is_split_at_a_line_end(tmp_path: Path, content: bytes, split: int) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    text = tokenize.survey(path)
    assert (text.size, text.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert text.split == split
    train, validation = ("".join(text.lines(*part)) for part in ((0, split), (split, text.size)))
    assert train.endswith("\n")
    assert validation
    assert (train + validation).encode() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n\t\n\n",
        b"all in one line",
        b"one\ntwo \xe9\nthree\n",
        "text".encode("utf-16"),
        None,
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with sentences.refuses(UserError):
        tokenize.survey(path)


@pytest.mark.parametrize("name", ["new", "empty", "new/below"])
def test_a_folder_gets_all_or_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    into = tmp_path / name
    with pytest.raises(SystemExit), tokenize.all_or_nothing(into) as folder:
        sys.exit((folder / "train.bin").write_bytes(b"half"))  # as after scancel
    assert not into.exists() or not os.listdir(into)
    assert not [*into.parent.glob(".*")]
    with tokenize.all_or_nothing(into) as folder:
        (folder / "train.bin").write_bytes(b"all")
        assert not into.exists() or not os.listdir(into)
    assert (into / "train.bin").read_bytes() == b"all"
    assert not [*into.parent.glob(".*")]


def test_a_folder_that_cannot_be_filled_is_refused_first(tmp_path: Path) -> None:
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    for path in (file, full / "train.bin"):
        path.write_text("mine")
    for into in (full, file, file / "below"):
        with sentences.refuses(UserError), tokenize.all_or_nothing(into):
            raise AssertionError(into)
    assert (full / "train.bin").read_text() == "mine"


def test_another_rank_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    args = tokenize.parser().parse_args([str(tmp_path), "--into", str(tmp_path / "new")])
    with sentences.refuses(UserError):
        tokenize.run(args)
