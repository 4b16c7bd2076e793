"""The trainers' options: what a value must be, and what is read before the others."""

from __future__ import annotations

import sys

import pytest

from recipes import options
from recipes.distributed import UserError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "0"], "argument --epochs: must be at least 1, not 0"),
        (["--epochs", "two"], "argument --epochs: 'two' is not a whole number"),
        (["--epochs", "1.5"], "argument --epochs: '1.5' is not a whole number"),
        (["--rate", "-1"], "argument --rate: must be at least 0, not -1"),
        (["--rate", "1"], "argument --rate: must be less than 1, not 1"),
        (["--rate", "nan"], "argument --rate: must be at least 0, not nan"),
        (["--rate", "inf"], "argument --rate: must be at least 0, not inf"),
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--epochs"], "argument --epochs: expected one argument"),
    ],
)
def test_bad_setting(words: list[str], message: str) -> None:
    parser = options.BareParser("some_trainer", "what it does")
    parser.add_argument("--epochs", type=options.at_least(1))
    parser.add_argument("--rate", type=options.at_least(0.0, below=1))
    with pytest.raises(UserError) as caught:
        parser.parse_args(words)
    assert str(caught.value) == f"{message}\nAll options: --help"


def test_an_option_that_is_needed_early_is_found_in_both_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words, value in ((["--exchange", "ddp"], "ddp"), (["--exchange=fsdp"], "fsdp"), ([], "x")):
        monkeypatch.setattr(sys, "argv", ["trainer", "--epochs", "1", *words])
        assert options.option("--exchange", "x") == value
