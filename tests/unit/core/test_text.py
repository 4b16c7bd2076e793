"""Numbers and lists in words."""

from __future__ import annotations

import pytest

from runners.contract import log_text
from runners.core import text


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (4.6e9, "4.6 GB"), (2e15, "2000.0 TB")],
)
def test_sizes_in_words(number: float, words: str) -> None:
    assert log_text.human_size(number) == words


def test_a_long_list_ends_with_how_many_more_there_are() -> None:
    assert text.first_few(["a", "b"], 2) == "a, b"
    assert text.first_few(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert text.first_few(["a", "b", "c"], 2, "\n  ") == "a\n  b\n  and 1 more"
