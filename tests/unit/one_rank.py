"""Horovod as seen by one rank, the others' objects being given: for the fast tests of recipes."""

from __future__ import annotations

from typing import Any


class OneRank:
    """Stands for `horovod.torch`. `others` are the objects that the other ranks gather.

    With several ranks and no objects given, every rank gathers the same.
    """

    def __init__(self, rank: int = 0, others: tuple[Any, ...] = (), size: int = 0) -> None:
        self.number, self.others, self.is_down = rank, others, False
        self.ranks = size or 1 + len(others)

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return self.ranks

    def local_size(self) -> int:
        return self.ranks

    def allgather_object(self, mine: Any, name: str) -> list[Any]:
        if not self.others:
            return [mine] * self.ranks
        objects = list(self.others)
        objects.insert(self.number, mine)
        return objects

    def broadcast_object(self, mine: Any, root_rank: int, name: str) -> Any:
        return mine

    def shutdown(self) -> None:
        self.is_down = True

    def mpi_enabled(self) -> bool:
        return False

    def gloo_enabled(self) -> bool:
        return True
