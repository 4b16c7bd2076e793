"""A table of runs that follows them: live on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable

import click

from . import status_view
from .status_view import Run

if TYPE_CHECKING:
    from rich.table import Table

SECONDS_BETWEEN_LOOKS = 5.0
LINES_AROUND = 4  # the headers, the line of what is left out, and the prompt


def until_all_ended(look: Callable[[], list[Run]]) -> None:
    """Show how the runs that `look` returns stand until all have ended."""
    if sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb"):
        _live(look)
    else:
        _lines(look)


def _lines(look: Callable[[], list[Run]]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    while True:
        found = status_view.of_all(look())
        for facts in found:
            now = (facts["state"], facts["why"])
            if seen.get(facts["folder"]) != now:
                seen[facts["folder"]] = now
                texts = [text for text in status_view.row(facts) if text]
                click.echo(time.strftime("%H:%M:%S  ") + "  ".join(texts))
        if status_view.ended(found):
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _live(look: Callable[[], list[Run]]) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, auto_refresh=False) as screen:
        while True:
            found = status_view.of_all(look())
            screen.update(_table(found, console.height - LINES_AROUND), refresh=True)
            if status_view.ended(found):
                return
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _table(found: Sequence[dict[str, Any]], lines: int) -> Table:
    """Return the runs that go on and then the newest, as many as the screen has lines for."""
    from rich.table import Table
    from rich.text import Text

    newest_first = range(len(found) - 1, -1, -1)
    order = sorted(newest_first, key=lambda place: status_view.ended([found[place]]))
    kept = sorted(order[: max(1, lines)])
    more = f"and {len(found) - len(kept)} more" if len(found) > len(kept) else None
    rows, headers = status_view.table([found[place] for place in kept])
    table = Table(*headers, box=None, caption=more, caption_justify="left")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    return table
