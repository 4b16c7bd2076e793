"""The bar of a job that is followed."""

from __future__ import annotations

import pytest

from runners.cli.runs.follow import PROGRESS


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b"0@n1 |   step 100/368  epoch 5  loss 0.1  0:04 left", (b"100", b"368")),
        (b"step 1/2", (b"1", b"2")),
        (b"0@n1 | two step 1/2", None),
        (b"0@n1 |   step 1/2x", None),
    ],
)
def test_lines_that_move_the_bar(line: bytes, step: tuple[bytes, bytes] | None) -> None:
    found = PROGRESS.match(line)
    assert (found.groups()[:2] if found else None) == step
