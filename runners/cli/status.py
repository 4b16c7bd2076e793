"""`runner status` and `runner list`: how runs stand, once or as it changes."""

from __future__ import annotations

from pathlib import Path

import click

from ..core import job_record, tokens
from ..jobs import find
from . import common_options, live_table, printer, run_arguments, status_view


@click.command("status", epilog="Example: runner status --watch 42")
@common_options.job
@common_options.runs_dir
@click.option("--watch", "goes_on", is_flag=True, help="go on until it has ended")
@common_options.as_json
def status_command(job: str | None, runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """Show how JOB stands: a number, a run's name or folder; the last run by default."""
    meant = find.find_all(job, run_arguments.folder(runs_dir))
    if goes_on:
        _not_json(as_json)
        live_table.until_all_ended(lambda: [(paths, job_record.load(paths)) for paths, _ in meant])
    elif len(meant) > 1:
        _print(meant, as_json)
    else:
        facts = status_view.of_one(*meant[0])
        printer.print_json(facts) if as_json else printer.result_table(status_view.in_words(facts))


@click.command("list", epilog="Example: runner list --watch")
@common_options.runs_dir
@click.option("--watch", "goes_on", is_flag=True, help="go on until all have ended")
@common_options.as_json
def list_command(runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """List the runs, oldest first."""
    folder = run_arguments.folder(runs_dir)
    if goes_on:
        _not_json(as_json)
        live_table.until_all_ended(lambda: find.all_runs(folder))
    else:
        found = find.all_runs(folder)
        if not (found or as_json):
            _none(folder)
        _print(found, as_json)


def _none(folder: Path) -> None:
    """Say that there is nothing here, and where there is something."""
    others = find.other_folders(folder)[: find.LISTED]
    click.echo(f"runner: no runs in {folder}", err=True)
    for other in others:
        click.echo(f"  there are some in {other}", err=True)
    if others:
        text = tokens.join(["runner", "list", "--runs-dir", str(others[0])])
        click.echo(f"  try: {text}", err=True)


def _not_json(as_json: bool) -> None:
    if as_json:
        raise click.UsageError("--watch is for eyes; for a program ask again: --json")


def _print(meant: list[status_view.Run], as_json: bool) -> None:
    rows = status_view.of_all(meant)
    if as_json:
        printer.print_json(rows)
    else:
        printer.table(*status_view.table(rows), status_view.SPARE)
