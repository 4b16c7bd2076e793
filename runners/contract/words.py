"""The base of our enums."""

from __future__ import annotations

from enum import Enum


class WordEnum(str, Enum):
    """One of a closed set of words, as they are typed."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        return tuple(member.value for member in cls)
