"""Commands about the end of a run: wait, cancel, result."""

from __future__ import annotations

import sys

import click

from ...core.errors import NotFound, UsageError
from ...jobs import job_status
from ...jobs.find import Runs
from ...launching import end, run_group
from .. import options, printer
from . import follow, group_view, job_end


@click.command("wait", epilog="Example: runner wait 42 && echo well")
@options.job
@options.runs_dir
def wait_command(job: str | None, runs_dir: str | None) -> None:
    """Wait for JOB to end; exit with its exit code or a documented one.

    For a job array it is the first nonzero exit code.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        sys.exit(group_view.wait(meant))
    paths, job_record = meant[0]
    ended = end.of_job(paths, job_record, follow.waited(paths, job_record))
    job_end.tell_success(ended)
    job_end.show(ended)
    sys.exit(ended.exit_code)


@click.command("cancel", epilog="Example: runner cancel 42")
@options.job
@options.runs_dir
def cancel_command(job: str | None, runs_dir: str | None) -> None:
    """Cancel JOB; the ID of a job array cancels all of its runs.

    Without JOB, the command asks at a terminal whether to cancel the last job.
    """
    meant = options.find_all(job, runs_dir)
    if job is None:
        _confirm(meant)
    cancelled, first, several = run_group.cancel(meant), meant[0][1], len(meant) > 1
    name = first.array if several else first.id
    if not cancelled:
        what = f"all runs of {name} have" if several else f"job {name} has"
        raise NotFound(f"{what} ended already", remedy=f"runner status {name}")
    if several:
        click.echo(f"{name}: {cancelled} of {len(meant)} runs cancelled", err=True)
    else:
        job_end.tell_cancelled(first)


def _confirm(meant: Runs) -> None:
    """Ask whether to cancel the last job; raise UsageError without a terminal."""
    job = meant[0][1]
    name = job.array or job.id
    what = f"{len(meant)} runs of {name}" if len(meant) > 1 else f"job {name} ({job.name})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("which job?", f"the last one is {what}", f"runner cancel {name}")
    if not click.confirm(f"cancel {what}?", err=True):
        raise click.exceptions.Exit(1)


@click.command("result", epilog="Example: runner result --json 42")
@options.job
@options.runs_dir
@options.sort
@options.as_json
def result_command(job: str | None, runs_dir: str | None, sort: str | None, as_json: bool) -> None:
    """Show the result.json that the trainer of JOB wrote.

    For a job array: one line per run, the best first.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        statuses = job_status.last_known(meant, printer.Console())
        group_view.show(run_group.results(meant, statuses), as_json, sort)
        return
    paths, job_record = meant[0]
    result = end.result(paths, job_record)
    printer.print_json(result) if as_json else printer.result_table(job_end.without_use(result))
    (status,) = job_status.last_known(meant, printer.Console())
    if failed := end.failure(paths, job_record, status):
        printer.tell(f"job {job_record.id} {failed}: these are not the results of a whole training")
        click.echo(f"  try: {end.explained_by(job_record)}", err=True)
