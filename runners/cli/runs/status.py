"""`runner status`: the state of a job, or of each run of an array."""

from __future__ import annotations

import click

from ...core.job_record import Job, JobPaths
from ...monitoring import run_status, stalls
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
        status_view.show(meant, as_json)
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
