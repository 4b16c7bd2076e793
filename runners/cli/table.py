"""Tables that fit the terminal: columns that can be spared go first, then long texts are folded."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

GAP = 2  # blanks between columns
LEAST = 80  # columns that a terminal is taken to have at least

Row = list[str]


class Fitted(NamedTuple):
    """A table as it is printed, and the headers of the columns that were left out of it."""

    text: str
    left_out: list[str]


def width() -> int | None:
    """Return the terminal's columns; None where the output goes to a file or a program."""
    if sys.stdout.isatty():
        return max(LEAST, shutil.get_terminal_size().columns)
    return None


def fitted(
    rows: Sequence[Sequence[object]], headers: Sequence[str], spare: Collection[str] = (),
    room: int | None = None,
) -> Fitted:  # fmt: skip
    """Return rows under headers without lines, at most `room` columns wide if that is given.

    Empty columns are left out first, then those named in `spare`, the last one first.
    """
    # tabulate costs 15 ms, which `--help` and `--dry-run` need not pay.
    import tabulate

    tabulate.MIN_PADDING = 0  # headers need no more room than other texts
    names, texts = list(headers), [[str(cell) for cell in row] for row in rows]
    left_out: list[str] = []
    while room and needed(texts, names) > room:
        empty = [n for n, column in enumerate(zip(*texts)) if names and not any(column)]
        last = max(empty or [n for n, name in enumerate(names) if name in spare], default=None)
        if last is None:
            break
        left_out += [] if empty else [names[last]]
        del names[last]
        for row in texts:
            del row[last]
    limits = _limits(texts, names, room) if room else None
    text = tabulate.tabulate(
        texts, headers=names, tablefmt="plain", disable_numparse=True, maxcolwidths=limits,
        maxheadercolwidths=limits,
    )  # fmt: skip
    return Fitted(text, left_out[::-1])


def needed(rows: Sequence[Row], headers: Sequence[str]) -> int:
    """Return how wide a table is that is not folded."""
    widths = _widths(rows, headers)
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(rows: Sequence[Row], headers: Sequence[str], end: str | None = "\n") -> list[int]:
    """Return the length of each column's longest line; of its longest word if `end` is None."""
    columns = zip(*([[*headers]] if headers else []), *rows)
    return [
        max((len(part) for cell in column for part in cell.split(end)), default=0)
        for column in columns
    ]


def _limits(rows: Sequence[Row], headers: Sequence[str], room: int) -> list[int]:
    """Return the widths of columns that fit: the wide ones share what the others leave.

    Words are kept whole where they can be.
    """
    widths, words = _widths(rows, headers), _widths(rows, headers, None)
    room -= GAP * (len(widths) - 1)
    least = words if sum(words) <= room else [0] * len(words)
    left = room - sum(least)
    limits = list(widths)
    order = sorted(range(len(widths)), key=lambda place: widths[place] - least[place])
    for done, place in enumerate(order):
        limits[place] = min(widths[place], least[place] + left // (len(widths) - done))
        limits[place] = max(1, limits[place])
        left -= limits[place] - least[place]
    return limits
