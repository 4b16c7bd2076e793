"""`runner cancel`: cancel a job, or all runs of an array."""

from __future__ import annotations

import sys

import click

from ...core.errors import NotFound, UsageError
from ...jobs.find_run import Runs
from ...monitoring import run_group
from .. import options
from . import job_end


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
        subject = f"all runs of {name} have" if several else f"job {name} has"
        raise NotFound(f"{subject} ended already", remedy=f"runner status {name}", id="job-ended")
    if several:
        click.echo(f"{name}: {cancelled} of {len(meant)} runs cancelled", err=True)
    else:
        job_end.tell_cancelled(first)


def _confirm(meant: Runs) -> None:
    """Ask whether to cancel the last job; raise UsageError without a terminal."""
    job = meant[0][1]
    name = job.array or job.id
    subject = f"{len(meant)} runs of {name}" if len(meant) > 1 else f"job {name} ({job.name})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "which job?", f"the last one is {subject}", f"runner cancel {name}", id="job-not-named"
        )
    if not click.confirm(f"cancel {subject}?", err=True):
        raise click.exceptions.Exit(1)
