"""`runner wait`: wait for a job, and exit as it did."""

from __future__ import annotations

import sys

import click

from ...monitoring import end
from .. import options
from . import follow, job_end, several_runs


@click.command("wait", epilog="Example: runner wait 42 && echo well")
@options.job
@options.runs_dir
def wait_command(job: str | None, runs_dir: str | None) -> None:
    """Wait for JOB to end; exit with its exit code or a documented one.

    For a job array it is the first nonzero exit code.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        sys.exit(several_runs.wait(meant))
    paths, job_record = meant[0]
    ended = end.of_job(paths, job_record, follow.waited(paths, job_record))
    job_end.tell_success(ended)
    job_end.show(ended)
    sys.exit(ended.exit_code)
