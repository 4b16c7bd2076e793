"""Where a followed job is shown: plain lines, or on a terminal the same above a bar."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from . import progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

# Any trainer that prints such lines has a bar: `  step 100/368  epoch 5  loss 0.1  0:04 left`.
PROGRESS = re.compile(rb"^(?:\d+@\S+ \| )?\s*step (\d+)/(\d+)\b\s*(.*)$")

WIDE = 140  # columns from which there is room for more than the trainer's own line


@contextmanager
def screen() -> Iterator[Plain]:
    if not progress.watched():
        yield Plain()
        return
    from rich.progress import BarColumn, SpinnerColumn

    what = progress.column(lambda task: str(task.fields["what"]))
    more = progress.column(lambda task: str(task.fields["more"]))
    bar = BarColumn()
    with progress.bars(SpinnerColumn(), what, bar, more) as bars:
        bar.bar_width = 20 if bars.console.width >= WIDE else 12
        yield Terminal(bars)


class Plain:
    """Lines as they come: the job's own to stdout, ours to stderr."""

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    def show(self, lines: list[bytes]) -> None:
        if lines:
            click.echo(b"\n".join(lines))

    def at(self, line: bytes) -> bool:
        """Take a line that tells how far the job is; return whether it need not be printed."""
        return False

    def refresh(self, what: str, short: str) -> None:
        """Show that time passes, and how the job stands, in many words or few."""


class Terminal(Plain):
    """A bar below the lines, which becomes one with steps when the trainer tells of them."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.task = bars.add_task("", total=None, what="", more="")

    def say(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, lines: list[bytes]) -> None:
        """Print lines of the job's log above the bar, or to where stdout leads."""
        if not sys.stdout.isatty():
            super().show(lines)
        elif lines:
            self.say(b"\n".join(lines).decode("utf-8", "replace"))

    def at(self, line: bytes) -> bool:
        found = PROGRESS.match(line)
        if found is None:
            return False
        step, steps, more = int(found[1]), int(found[2]), found[3].decode("utf-8", "replace")
        self.bars.update(self.task, completed=step, total=steps, more=f"{step}/{steps}  {more}")
        return sys.stdout.isatty()

    def refresh(self, what: str, short: str) -> None:
        """Turn the spinner; on a narrow screen a trainer's line leaves no room for many words."""
        total = self.bars.tasks[0].total
        room = total is None or self.bars.console.width >= WIDE
        self.bars.update(self.task, what=what if room else short, refresh=True)
