"""The command that each rank runs, and which ranks have a profiler around it."""

from __future__ import annotations

from collections.abc import Sequence

OUTPUT = "{output}"  # in the command, it becomes RUN/profile/rank-N
ALL = "all"


def is_python(trainer: Sequence[str]) -> bool:
    """Whether a command is `-m MODULE` or a file of Python's, and not a program."""
    return trainer[0] == "-m" or trainer[0].endswith(".py")


def parse_ranks(text: str) -> tuple[range, ...] | None:
    """Return the ranks of `0,2-3`, None for all of them. Raises ValueError."""
    if text == ALL:
        return None
    ranges = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"{part!r} is neither a rank nor a range of ranks")
        ranges.append(range(int(first), int(last) + 1))
    return tuple(ranges)
