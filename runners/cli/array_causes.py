"""Why runs of an array failed, those with the same cause together."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..core.job_record import Job
from ..explain.explanation import Explanation
from ..explain.judge import explain
from ..jobs import job_status
from ..submit.job_array import Runs
from . import printer
from .explanation_view import facts, lines
from .status_view import WELL

LISTED = 10
Explained = Sequence["tuple[Job, Explanation]"]


def of_several(runs: Runs, as_json: bool) -> None:
    """Print why those runs failed that did, with one scheduler call for all."""
    pairs = zip(runs, job_status.statuses(runs))
    failed = [(run, status) for run, status in pairs if status.state not in WELL]
    said = [(job, explain(paths, job, status)) for (paths, job), status in failed]
    if as_json:
        printer.print_json([facts(why, job) for job, why in said])
        return
    click.echo(f"{runs[0][1].array}: {len(said)} of {len(runs)} runs did not end well")
    for group in _alike(said):
        click.echo(_who(group))
        for line in lines(group[0][1], group[0][0]):
            click.echo(line)


def _alike(said: Explained) -> list[Explained]:
    """Group by what failed, the most frequent first; one explanation stands for its group."""
    groups: dict[str, list[tuple[Job, Explanation]]] = {}
    for job, why in said:
        groups.setdefault(why.name, []).append((job, why))
    return sorted(groups.values(), key=len, reverse=True)


def _who(group: Explained) -> str:
    ids = [job.id for job, _ in group]
    more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
    return f"{', '.join(ids[:LISTED])}{more}" + ("; of the first:" if len(ids) > 1 else ":")
