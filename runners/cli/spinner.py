"""A long phase on a terminal: a spinner, the time so far, what it does now. Imports rich."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from containers.progress import Status, unknown

from .progress_lines import Lines

REFRESH = 4  # times a second


class Name(ProgressColumn):
    """What is done."""

    def render(self, task: Task) -> Text:
        """The task's name as it is, brackets included."""
        return Text(task.description)


class Now(ProgressColumn):
    """What a phase does now: the last line of its log, or the bytes that it has fetched."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self.status = status

    def render(self, task: Task) -> Text:
        """Ask for it now."""
        return Text(self.status(), style="dim", no_wrap=True, overflow="ellipsis")


class Live(Lines):
    """Lines that stay, and below them the work at hand."""

    @contextmanager
    def phase(self, name: str, status: Status = unknown) -> Iterator[None]:
        """Show the work until it ends, then leave one line."""
        began = time.monotonic()
        columns = (SpinnerColumn(), Name(), TimeElapsedColumn(), Now(status))
        screen = Console(stderr=True)
        with Progress(*columns, console=screen, transient=True, refresh_per_second=REFRESH) as bars:
            bars.add_task(name, total=None)
            yield
        self.say(f"{name}: {time.monotonic() - began:.0f} s")
