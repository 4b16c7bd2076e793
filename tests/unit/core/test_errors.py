"""What a mistyped name is answered with."""

from __future__ import annotations

import pytest

from runners.core.errors import nearest

OPTIONS = ("--base-lr", "--batch-size", "--help", "--resume", "--epochs", "--seed", "--workers")


@pytest.mark.parametrize(
    ("word", "known", "answer"),
    [
        ("--base-l", OPTIONS, "did you mean --base-lr?"),  # and not --resume or --help beside it
        ("--epoch", OPTIONS, "did you mean --epochs?"),
        ("torch_mist", ("torch_mnist", "tf_mnist", "torch_lm"), "did you mean torch_mnist?"),
        ("mnis", ("mnist", "mnist2"), "did you mean mnist or mnist2?"),
        ("v2", ("v1",), "did you mean v1?"),
        ("zzz", ("b", "a"), "one of: a, b"),
        ("zzz", (), ""),
    ],
)
def test_only_names_that_are_about_as_near_are_offered(
    word: str, known: tuple[str, ...], answer: str
) -> None:
    assert nearest(word, known) == answer
