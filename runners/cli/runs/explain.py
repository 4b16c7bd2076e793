"""`runner explain`: diagnoses a failed job, or the failed runs of an array grouped by cause."""

from __future__ import annotations

import click

from ...core.text import first_few
from ...jobs import job_status, wording
from ...jobs.find import Runs
from ...launching import end, run_group
from .. import options, printer
from . import job_end

LISTED = 10


@click.command("explain", epilog="Example: runner explain 42")
@options.job
@options.runs_dir
@options.as_json
def explain_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Diagnose a failed JOB: cause, evidence, the command that fixes it, and the confidence.

    For a job array, its failed runs are grouped by cause.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        _explain_array(meant, as_json)
        return
    paths, job_record = meant[0]
    status = job_status.status(paths, job_record)
    explanation = end.explain(paths, job_record, status, printer.Console())
    if as_json:
        printer.print_json(end.explanation_facts(explanation, job_record))
        return
    state = wording.describe(status, job_record.requeue_limit)
    click.echo(f"job {job_record.id}: {state}, in {paths.root}")
    click.echo("\n".join(job_end.explanation_lines(explanation, job_record)))


def _explain_array(runs: Runs, as_json: bool) -> None:
    """Print why those runs failed that did."""
    explained = run_group.explained(runs)
    if as_json:
        printer.print_json([end.explanation_facts(why, job) for job, why in explained])
        return
    click.echo(f"{runs[0][1].array}: {len(explained)} of {len(runs)} runs did not end well")
    for group in run_group.by_cause(explained):
        job, why = group[0]
        who = first_few([job.id for job, _ in group], LISTED)
        click.echo(who + ("; of the first:" if group[1:] else ":"))
        click.echo("\n".join(job_end.explanation_lines(why, job)))
