"""`runner status` and `runner list`: how runs stand, once or as it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import click

from ...core import job_record, tokens
from ...core.job_record import Job, JobPaths
from ...jobs import find, use
from .. import common_options, printer, run_arguments
from . import status_view
from .status_view import Run

if TYPE_CHECKING:
    from rich.table import Table

SECONDS_BETWEEN_LOOKS = 5.0
LINES_AROUND = 4  # the headers, the line of what is left out, and the prompt


@click.command("status", epilog="Example: runner status --watch 42")
@common_options.job
@common_options.runs_dir
@click.option("--watch", "goes_on", is_flag=True, help="refresh until the job has ended")
@common_options.as_json
def status_command(job: str | None, runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """Show the state of JOB: a job ID, or a run's name or folder (default: the last run)."""
    meant = run_arguments.find_all(job, runs_dir)
    if goes_on:
        _watch(lambda: [(paths, job_record.load(paths)) for paths, _ in meant], as_json)
    elif len(meant) > 1:
        _print(meant, as_json)
    else:
        _show(*meant[0], as_json)


def _show(paths: JobPaths, job: Job, as_json: bool) -> None:
    used = use.of_run(paths)
    facts = status_view.of_one(paths, job, used)
    if as_json:
        printer.print_json(facts)
        return
    printer.result_table(status_view.in_words(facts))
    if used:
        click.echo("\nuse of its nodes (means, unless it says peak):")
        printer.table(*status_view.use_table(used))
        for line in status_view.use_lines(used, job):
            click.echo(line)


@click.command("list", epilog="Example: runner list --watch")
@common_options.runs_dir
@click.option("--watch", "goes_on", is_flag=True, help="refresh until all runs have ended")
@common_options.as_json
def list_command(runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """List the runs, oldest first."""
    folder = run_arguments.folder(runs_dir)
    if goes_on:
        _watch(lambda: find.all_runs(folder), as_json)
        return
    runs = find.all_runs(folder)
    if not (runs or as_json):
        _none(folder)
    _print(runs, as_json)


def _none(folder: Path) -> None:
    """Say that there is nothing here, and where there is something."""
    others = find.other_folders(folder)[: find.LISTED]
    printer.tell(f"no runs in {folder}")
    for other in others:
        click.echo(f"  there are some in {other}", err=True)
    if others:
        text = tokens.join(["runner", "list", "--runs-dir", str(others[0])])
        click.echo(f"  try: {text}", err=True)


def _print(meant: list[Run], as_json: bool) -> None:
    found = status_view.of_all(meant)
    printer.json_or_table(as_json, found, *status_view.table(found), status_view.SPARE)


def _watch(look: Callable[[], list[Run]], as_json: bool) -> None:
    """Show how the runs that `look` returns stand until all have ended.

    Live on a terminal, elsewhere a line for each change.
    """
    if as_json:
        raise click.UsageError("--watch and --json contradict each other; call --json repeatedly")
    from .. import progress

    if not progress.watched(sys.stdout):
        _print_changes(look)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, auto_refresh=False) as screen:
        for runs in _until_ended(look):
            screen.update(_screenful(runs, console.height - LINES_AROUND), refresh=True)


def _until_ended(look: Callable[[], list[Run]]) -> Iterator[list[dict[str, Any]]]:
    while True:
        found = status_view.of_all(look())
        yield found
        if status_view.ended(found):
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _print_changes(look: Callable[[], list[Run]]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for runs in _until_ended(look):
        for facts in runs:
            now = (facts["state"], facts["why"])
            if seen.get(facts["folder"]) != now:
                seen[facts["folder"]] = now
                texts = [text for text in status_view.row(facts) if text]
                click.echo(time.strftime("%H:%M:%S  ") + "  ".join(texts))


def _screenful(runs: Sequence[dict[str, Any]], lines: int) -> Table:
    """Return the runs that go on and then the newest, as many as the screen has lines for."""
    from rich.table import Table
    from rich.text import Text

    newest_first = range(len(runs) - 1, -1, -1)
    order = sorted(newest_first, key=lambda place: status_view.ended([runs[place]]))
    kept = sorted(order[: max(1, lines)])
    more = f"and {len(runs) - len(kept)} more" if len(runs) > len(kept) else None
    rows, headers = status_view.table([runs[place] for place in kept])
    table = Table(*headers, box=None, caption=more, caption_justify="left")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    return table
