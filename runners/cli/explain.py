"""`runner explain`: why a job failed, or runs of an array."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..core.job_record import Job, JobPaths, JobState
from ..core.remedy import command
from ..explain.explanation import Certainty, Explanation
from ..explain.judge import explain
from ..jobs import find, job_status, stalls
from ..settings import config
from . import array_causes, common_options, explanation_view, printer, stall_notice


@click.command("explain", epilog="Example: runner explain 42")
@common_options.job
@common_options.runs_dir
@common_options.as_json
def explain_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Say why JOB failed: cause, evidence, the command that mends it, and how sure that is.

    Of an array, why its runs failed, those with the same cause together.
    """
    folder = Path(config.load({"runs-dir": runs_dir}, os.environ).get("runs-dir")).absolute()
    meant = find.find_all(job, folder)
    if len(meant) > 1:
        array_causes.of_several(meant, as_json)
        return
    paths, found = meant[0]
    status = job_status.status(paths, found)
    said = explain(paths, found, status)
    if status.state == JobState.RUNNING and not said.failed:
        said = _so_far(paths, found) or said
    if as_json:
        printer.print_json(explanation_view.facts(said, found))
        return
    click.echo(f"job {found.id}: {printer.describe(status, found.restarts)}, in {paths.root}")
    for line in explanation_view.lines(said, found):
        click.echo(line)


def _so_far(paths: JobPaths, job: Job) -> Explanation | None:
    """Return what is wrong with a job that runs: it may have stopped making steps."""
    stalled = stall_notice.of_job(paths, job)
    if stalled is None:
        return None
    because = "its nodes were asked just now what each rank does"
    fix = command("runner", "logs", "--all", job.id)
    return Explanation("stall", stalls.in_words(stalled), (), fix, Certainty.LIKELY, because)
