"""The ranks of a run as one of them sees them, the others' objects being given: for fast tests."""

from __future__ import annotations

from typing import Any

from recipes.distributed import Ranks


def one_rank(rank: int = 0, size: int = 1, others: tuple[Any, ...] = ()) -> Ranks:
    """Return rank `rank` of `size`. `others` are the objects that the other ranks give.

    With several ranks and no objects given, every rank gives the same.
    """

    def gather(mine: Any) -> list[Any]:
        if not others:
            return [mine] * size
        objects = list(others)
        objects.insert(rank, mine)
        return objects

    return Ranks(
        rank, max(size, 1 + len(others)), 0, size, gather, lambda mine: mine, lambda: None, "gloo"
    )
