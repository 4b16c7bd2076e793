"""Progress on stderr: a bar or a spinner on a terminal, elsewhere a few lines."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

import click

from containers.build_steps import BuildProgress, Status

from ..contract.log_text import harmless, human_size
from ..core.progress import Progress

if TYPE_CHECKING:  # rich costs 60 ms, which only who waits at a terminal pays
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn, Task

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_SIGNS = 30.0  # of life, in a phase that does not count bytes
SECONDS_BETWEEN_REFRESHES = 0.1


def watched() -> bool:
    """Whether stderr is a terminal that can draw over what it has shown."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


def bars(*columns: ProgressColumn | str, **more: Any) -> Bars:
    """Return rich's display of these columns, which goes when the work has ended.

    Without its thread: programs are started meanwhile, with work to do between fork and exec.
    """
    from rich import progress
    from rich.console import Console

    fixed: dict[str, Any] = {"transient": True, "auto_refresh": False, **more}
    return progress.Progress(*columns, console=Console(stderr=True), **fixed)


def column(text: Callable[[Task], str], style: str = "") -> ProgressColumn:
    """Return a column of plain text, in one line, brackets included."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Plain(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(text(task), style=style, no_wrap=True, overflow="ellipsis")

    return Plain()


@contextmanager
def display() -> Iterator[Progress]:
    """Yield what work that counts bytes reports to."""
    if not watched():
        yield Lines()
        return
    from rich import progress

    with bars(
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeElapsedColumn(),
    ) as made:
        yield Bar(made)


def phases() -> Lines:
    return Spinner() if watched() else Lines()


class Lines(BuildProgress):
    """One line for each step, and one every ten seconds of a long one."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.began = self.told = time.monotonic()

    def say(self, text: str) -> None:
        click.echo(harmless(text), err=True)

    def begin(self, step: str, total: int | None = None) -> None:
        self.total, self.began, self.told = total, time.monotonic(), time.monotonic()
        self.say(f"{step} ({human_size(total)})" if total else step)

    def at(self, done: int) -> None:
        """Print bytes and rate, seldom."""
        now = time.monotonic()
        if now - self.told > SECONDS_BETWEEN_LINES:
            self.told = now
            of = f" of {human_size(self.total)}" if self.total else ""
            self.say(f"  {human_size(done)}{of}, {human_size(done / (now - self.began))}/s")

    @contextmanager
    def phase(self, name: str, status: Status = str, usual: str = "") -> Iterator[None]:
        """Say that something begins, now and then what it does, and how long it took."""
        self.say(f"{name} ...{usual and f' ({usual})'}")
        began, ended = time.monotonic(), threading.Event()

        def signs_of_life() -> None:
            while not ended.wait(SECONDS_BETWEEN_SIGNS):
                line = status()
                self.say(f"{name}: {time.monotonic() - began:.0f} s so far{line and ': '}{line}")

        thread = threading.Thread(target=signs_of_life, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.say(f"{name}: {time.monotonic() - began:.0f} s")


class Spinner(Lines):
    """Lines that stay, and below them the work at hand: its time, and what it does now."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.count = threading.RLock(), 0
        self.shown: Bars | None = None

    def say(self, text: str) -> None:
        with self.lock:
            if self.shown is None:
                super().say(text)
            else:
                self.shown.console.print(harmless(text), markup=False, highlight=False)

    @contextmanager
    def phase(self, name: str, status: Status = str, usual: str = "") -> Iterator[None]:
        """Show the work until it ends, then leave one line."""
        began, shown = time.monotonic(), self._begin()
        task = shown.add_task(f"{name}{usual and f' ({usual})'}", total=None, status=status)
        try:
            yield
        finally:
            shown.remove_task(task)
            self._end()
        self.say(f"{name}: {time.monotonic() - began:.0f} s")

    def _begin(self) -> Bars:
        """Return the one display, which all work at hand shares."""
        from rich.progress import SpinnerColumn, TimeElapsedColumn

        with self.lock:
            if self.shown is None:
                now = column(lambda task: task.fields["status"](), style="dim")
                name = column(lambda task: task.description)
                columns = (SpinnerColumn(), name, TimeElapsedColumn(), now)
                self.shown = bars(*columns, auto_refresh=True, refresh_per_second=4)
                self.shown.start()
            self.count += 1
            return self.shown

    def _end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.shown and not self.count:
                self.shown.stop()
                self.shown = None


class Bar(Progress):
    """A bar with bytes, rate and time; without a total it only moves."""

    def __init__(self, bars: Bars) -> None:
        self.bars, self.shown = bars, 0.0
        self.task = bars.add_task("", total=None, visible=False)

    def say(self, text: str) -> None:
        self.bars.console.print(harmless(text), markup=False, highlight=False)

    def begin(self, step: str, total: int | None = None) -> None:
        self.bars.remove_task(self.task)
        self.say(step)
        self.task = self.bars.add_task("", total=total)
        self.bars.refresh()

    def at(self, done: int) -> None:
        now = time.monotonic()
        refresh = now - self.shown > SECONDS_BETWEEN_REFRESHES
        self.bars.update(self.task, completed=done, refresh=refresh)
        if refresh:
            self.shown = now
