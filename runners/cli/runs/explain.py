"""`runner explain`: diagnoses a failed job, or the failed runs of an array grouped by cause."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...core.job_record import Job, JobPaths, JobState
from ...core.remedy import command
from ...core.text import first_few
from ...explain.explanation import Certainty, Explanation
from ...explain.judge import explain
from ...jobs import job_status, stalls, wording
from ...launching import end, stall_notice
from ...submit.job_array import Runs
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
    explanation = explain(paths, job_record, status)
    if status.state == JobState.RUNNING and not explanation.failed:
        explanation = _so_far(paths, job_record) or explanation
    if as_json:
        printer.print_json(end.explanation_facts(explanation, job_record))
        return
    click.echo(
        f"job {job_record.id}: {wording.describe(status, job_record.restarts)}, in {paths.root}"
    )
    click.echo("\n".join(job_end.explanation_lines(explanation, job_record)))


def _so_far(paths: JobPaths, job: Job) -> Explanation | None:
    """Return what is wrong with a job that runs: it may have stopped making progress."""
    stalled = stall_notice.asked(paths, job, printer.Console())
    if stalled is None:
        return None
    because = "its nodes were asked just now what each rank does"
    if stalled.step is None:
        because += "; one long call, such as reading a large file, looks the same"
    files = sorted(paths.stacks.glob("*.txt"))
    fix = command("cat", *files[:LISTED]) if files else command("runner", "logs", "--all", job.id)
    return Explanation("stall", stalls.in_words(stalled), (), fix, Certainty.LIKELY, because)


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
