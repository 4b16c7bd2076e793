"""How long work looks: a bar on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from containers.progress import Status, unknown

from ..core.disk_space import shown
from ..core.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_REFRESHES = 10.0, 0.1
SECONDS_BETWEEN_SIGNS = 30.0  # of life, in a phase that does not count bytes


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


class Lines:
    """One line for each step, and one every ten seconds of a long one."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.began = self.told = time.monotonic()

    def say(self, text: str) -> None:
        """Print it."""
        click.echo(text, err=True)

    def begin(self, what: str, total: int | None = None) -> None:
        """Print the step."""
        self.total, self.began, self.told = total, time.monotonic(), time.monotonic()
        self.say(f"{what} ({shown(total)})" if total else what)

    def at(self, done: int) -> None:
        """Print bytes and rate, seldom."""
        now = time.monotonic()
        if now - self.told > SECONDS_BETWEEN_LINES:
            self.told = now
            of = f" of {shown(self.total)}" if self.total else ""
            self.say(f"  {shown(done)}{of}, {shown(done / (now - self.began))}/s")

    @contextmanager
    def phase(self, name: str, status: Status = unknown) -> Iterator[None]:
        """Say that something begins, now and then what it does, and how long it took."""
        self.say(f"{name} ...")
        began, ended = time.monotonic(), threading.Event()

        def signs_of_life() -> None:
            while not ended.wait(SECONDS_BETWEEN_SIGNS):
                line = status()
                self.say(f"  {time.monotonic() - began:.0f} s so far{line and ': '}{line}")

        thread = threading.Thread(target=signs_of_life, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.say(f"{name}: {time.monotonic() - began:.0f} s")


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
