"""`runner status` and `runner list`: how runs stand."""

from __future__ import annotations

from pathlib import Path

import click

from ...core import quoting
from ...core.job_record import Job, JobPaths
from ...jobs import find, stalls
from ...jobs.find import Runs
from ...launching import run_status
from .. import options, printer
from . import status_view


@click.command("status", epilog="Example: runner status 42")
@options.job
@options.runs_dir
@options.as_json
def status_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Show the state of JOB: a job ID, or a run's name or folder (default: the last run)."""
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        _print(meant, as_json)
    else:
        _show(*meant[0], as_json)


def _show(paths: JobPaths, job: Job, as_json: bool) -> None:
    known = run_status.details(paths, job, printer.Console())
    if as_json:
        printer.print_json(status_view.details(known))
        return
    printer.result_table(status_view.in_words(known))
    for line in stalls.table(known.stall) if known.stall else ():
        click.echo(f"  {line}")
    if known.use:
        click.echo("\nuse of its nodes (means, unless it says peak):")
        printer.table(*status_view.use_table(known.use))
        for line in status_view.use_lines(known.use, job):
            click.echo(line)


@click.command("list", epilog="Example: runner list --json")
@options.runs_dir
@options.as_json
def list_command(runs_dir: str | None, as_json: bool) -> None:
    """List the runs, oldest first."""
    folder = options.folder(runs_dir)
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
        text = quoting.join(["runner", "list", "--runs-dir", str(others[0])])
        click.echo(f"  try: {text}", err=True)


def _print(runs: Runs, as_json: bool) -> None:
    statuses = run_status.of_runs(runs, printer.Console())
    rows, headers = status_view.table(statuses)
    facts = [status_view.facts(status) for status in statuses]
    printer.json_or_table(as_json, facts, rows, headers, status_view.SPARE)
