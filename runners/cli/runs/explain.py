"""`runner explain`: diagnoses a failed job, or the failed runs of an array grouped by cause."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...core.job_record import Job
from ...core.text import first_few
from ...explain.explanation import Explanation
from ...explain.judge import explain
from ...jobs import job_status, wording
from ...jobs.find import Runs
from ...launching import end
from .. import options, printer
from . import job_end
from .status_view import WELL

LISTED = 10
Explained = Sequence["tuple[Job, Explanation]"]


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
    """Print why those runs failed that did, with one scheduler call for all."""
    pairs = zip(runs, job_status.statuses(runs))
    failed = [(run, status) for run, status in pairs if status.state not in WELL]
    explanations = [(job, explain(paths, job, status)) for (paths, job), status in failed]
    if as_json:
        printer.print_json([end.explanation_facts(why, job) for job, why in explanations])
        return
    click.echo(f"{runs[0][1].array}: {len(explanations)} of {len(runs)} runs did not end well")
    for group in _alike(explanations):
        job, why = group[0]
        click.echo("\n".join([_who(group), *job_end.explanation_lines(why, job)]))


def _alike(explanations: Explained) -> list[Explained]:
    """Group by what failed, the most frequent first; one explanation stands for its group."""
    groups: dict[str, list[tuple[Job, Explanation]]] = {}
    for job, why in explanations:
        groups.setdefault(why.name, []).append((job, why))
    return sorted(groups.values(), key=len, reverse=True)


def _who(group: Explained) -> str:
    ids = [job.id for job, _ in group]
    return first_few(ids, LISTED) + ("; of the first:" if len(ids) > 1 else ":")
