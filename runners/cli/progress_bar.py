"""How long work looks: a bar on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.progress import Progress
from .progress_lines import Lines

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

SECONDS_BETWEEN_REFRESHES = 0.1


@contextmanager
def display() -> Iterator[Progress]:
    """Yield what long work reports to."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    # rich costs 60 ms, which only who waits for something pays.
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    # Without its thread: programs are started meanwhile, with work to do between fork and exec.
    with progress.Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        yield Bar(bars)


def phases() -> Lines:
    """What the phases of a build report to: a live line on a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        return Lines()
    from .spinner import Live

    return Live()


class Bar:
    """A bar with bytes, rate and time; without a total it only moves."""

    def __init__(self, bars: Bars) -> None:
        self.bars, self.shown = bars, 0.0
        self.task = bars.add_task("", total=None, visible=False)

    def say(self, text: str) -> None:
        """Print it above the bar."""
        self.bars.console.print(text, markup=False, highlight=False)

    def begin(self, what: str, total: int | None = None) -> None:
        """Start a new bar."""
        self.bars.remove_task(self.task)
        self.say(what)
        self.task = self.bars.add_task("", total=total)
        self.bars.refresh()

    def at(self, done: int) -> None:
        """Move the bar."""
        now = time.monotonic()
        refresh = now - self.shown > SECONDS_BETWEEN_REFRESHES
        self.bars.update(self.task, completed=done, refresh=refresh)
        if refresh:
            self.shown = now
