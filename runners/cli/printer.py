"""What the commands print: tables and numbers for people, JSON for programs."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from ..contract.log_text import harmless
from ..core.progress import Listener, Progress

LEAST = 80  # columns that a terminal is taken to have at least
COLUMN_GAP = 2  # blanks between the columns of a table


def at_terminal() -> bool:
    """Whether somebody types, and reads what is printed."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def tell(text: str) -> None:
    """Print a sentence of ours, to stderr."""
    click.echo(f"runner: {harmless(text)}", err=True)


def tell_first(alike: Sequence[str]) -> None:
    """Print the first of sentences that tell the same of several runs, and how many there are."""
    if alike:
        tell(alike[0] + (f"; and {len(alike) - 1} more like it" if alike[1:] else ""))


class Console(Listener):
    """Sentences and bars on stderr, of what a launch does before it submits."""

    def tell(self, text: str) -> None:
        tell(text)

    def progress(self) -> AbstractContextManager[Progress]:
        from . import progress  # 10 ms, for what a launch seldom has to wait for

        return progress.display()


def table(
    rows: Sequence[Sequence[Any]], headers: Sequence[str], spare: Collection[str] = ()
) -> None:
    """Print rows under headers, as wide as the terminal at most, whole where there is none.

    Empty columns are left out first, then those named in `spare`, the last one first, and that is
    said. Then long texts are folded.
    """
    texts = (*([headers] if headers else []), *rows)
    lines = [[harmless(cell).expandtabs() for cell in row] for row in texts]
    widths = _widths(lines)
    left_out: list[str] = []
    room = width()
    while room and _total(widths) > room:
        columns = list(enumerate(zip(*lines)))
        empty = [n for n, column in columns if headers and rows and not any(column[1:])]
        last = max(empty or [n for n, column in columns if column[0] in spare], default=None)
        if last is None:
            break
        left_out[:0] = [] if empty else [lines[0][last]]
        del widths[last]
        for line in lines:
            del line[last]
    for text in _layout(lines, widths, room or _total(widths)) if lines else ():
        click.echo(text)
    if left_out:
        click.echo(f"no room for: {', '.join(left_out)} (see --json)", err=True)


def width() -> int | None:
    """Return the terminal's columns; None where the output goes to a file or a program."""
    if sys.stdout.isatty():
        return max(LEAST, shutil.get_terminal_size().columns)
    return None


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return how many characters wide the table is with no text folded."""
    return _total(_widths(rows))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    columns = itertools.zip_longest(*rows, fillvalue="")
    return [
        max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + COLUMN_GAP * (len(widths) - 1)


def _layout(rows: Sequence[Sequence[str]], widths: Sequence[int], room: int) -> list[str]:
    """Return a table's lines, the texts of the widest columns folded between words for the room."""
    from rich.console import Console  # 50 ms, for tables alone
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0), show_header=False)
    for wide in widths:
        grid.add_column(overflow="fold", width=wide if _total(widths) <= room else None)
    for row in rows:
        grid.add_row(*map(Text, row))
    # Else TERM=dumb, beside FORCE_COLOR too, means 80 columns.
    console = Console(width=room, color_system=None, force_terminal=False)
    with console.capture() as shown:
        console.print(grid)
    return [line.rstrip() for line in shown.get().splitlines()]


def json_or_table(
    as_json: bool,
    value: Any,
    rows: Sequence[Sequence[Any]],
    headers: Sequence[str],
    spare: Collection[str] = (),
) -> None:
    """Print a value as JSON, or for people rows under headers."""
    if as_json:
        print_json(value)
    else:
        table(rows, headers, spare)


def made(as_json: bool, facts: Any, about: str, name: object, next_step: str = "") -> None:
    """Print what was made: its facts as JSON, or its name, with what is known of it on stderr."""
    if as_json:
        print_json(facts)
        return
    click.echo(about, err=True)
    click.echo(name)
    if next_step:
        click.echo(f"next: {next_step}", err=True)


def result_table(result: dict[str, Any]) -> None:
    """Print a trainer's result, one fact a line, nested ones with a dot."""
    table([[name, text] for name, text in _flat(result)], headers=[])


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, text(item)))
    return rows


def text(item: Any) -> str:
    """Return a value of a result as it is read: four digits, lists without brackets, - for none."""
    if isinstance(item, float):
        return f"{item:.4g}" if abs(item) < 1000 else f"{item:.1f}"
    if isinstance(item, list):
        return ", ".join(text(part) for part in item) or "-"
    return "-" if item is None else str(item)
