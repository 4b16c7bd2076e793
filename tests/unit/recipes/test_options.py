"""The trainers' options: what a value must be, and what is read before the others."""

from __future__ import annotations

import sys

import pytest

from recipes import options
from recipes.distributed import UserError

from .. import sentences


@pytest.mark.parametrize(
    "words",
    [
        ["--epochs", "0"],
        ["--epochs", "two"],
        ["--epochs", "1.5"],
        ["--rate", "-1"],
        ["--rate", "1"],
        ["--rate", "nan"],
        ["--rate", "inf"],
        ["--epoch", "3"],
        ["--epochs"],
    ],
)
def test_bad_setting(words: list[str]) -> None:
    parser = options.BareParser("some_trainer", "what it does")
    parser.add_argument("--epochs", type=options.at_least(1))
    parser.add_argument("--rate", type=options.at_least(0.0, below=1))
    with sentences.refuses(UserError):
        parser.parse_args(words)


def test_an_option_that_is_needed_early_is_found_in_both_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words, value in ((["--exchange", "ddp"], "ddp"), (["--exchange=fsdp"], "fsdp"), ([], "x")):
        monkeypatch.setattr(sys, "argv", ["trainer", "--epochs", "1", *words])
        assert options.option("--exchange", "x") == value
