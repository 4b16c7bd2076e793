"""Progress on a terminal: a spinner, the time so far, the last line of the log. Imports rich."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from .build_phases import Lines, last_line

REFRESH = 4  # times a second


class Name(ProgressColumn):
    """What is done."""

    def render(self, task: Task) -> Text:
        """The task's name as it is, brackets included."""
        return Text(task.description)


class LastLine(ProgressColumn):
    """The last line of a log that grows."""

    def __init__(self, log: Path | None) -> None:
        super().__init__()
        self.log = log

    def render(self, task: Task) -> Text:
        """Read it now."""
        return Text(last_line(self.log), style="dim", no_wrap=True, overflow="ellipsis")


class Live(Lines):
    """Lines that stay, and below them the work at hand."""

    @contextmanager
    def phase(self, name: str, log: Path | None = None) -> Iterator[None]:
        """Show the work until it ends, then leave one line."""
        began = time.monotonic()
        columns = (SpinnerColumn(), Name(), TimeElapsedColumn(), LastLine(log))
        screen = Console(stderr=True)
        with Progress(*columns, console=screen, transient=True, refresh_per_second=REFRESH) as bars:
            bars.add_task(name, total=None)
            yield
        self.say(f"{name}: {time.monotonic() - began:.0f} s")
