"""Runs that were submitted together: prints how they change, end, and what they reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from ...core import job_record, signals
from ...core.job_record import Job, JobPaths, JobState, Status
from ...jobs import wording
from ...jobs.find import Runs
from ...launching import run_group
from ...launching.run_group import GroupNews
from .. import printer
from . import job_end, status_view

TOLD = 3  # of the runs that failed, so many are told of at length


def facts(paths: JobPaths, job: Job) -> dict[str, Any]:
    return {"id": job.id, "folder": str(paths.root), "log": job.log, "varied": dict(job.varied)}


def wait(runs: Runs, as_json: bool = False, quiet: bool = False) -> int:
    """Wait for the end of all runs, telling of each; return the first code that is not 0."""
    name = runs[0][1].array
    statuses: Sequence[Status] = ()
    try:
        for news in run_group.news(runs):
            statuses = news.statuses
            if not (as_json or quiet):
                _tell(name, news)
    except KeyboardInterrupt as interrupt:
        ways = f"come back: runner wait {name}; end it: runner cancel {name}"
        click.echo(f"\nrunner: left {name}; {ways}", err=True)
        return signals.code(interrupt)
    group = run_group.ended(runs, statuses)
    for (paths, job), status in group.failed[:TOLD]:
        job_end.ending(paths, job, status)
    if len(group.failed) > TOLD:
        printer.tell(f"{len(group.failed)} runs did not end well; see: runner status {name}")
    if as_json or not quiet:
        show(runs, statuses, as_json)
    return group.exit_code


def _tell(name: str, news: GroupNews) -> None:
    """Say which runs have ended, and in which states all of them are."""
    for job, status in news.ended:
        what = f"{job.id} {status_view.varied(job.varied)}".rstrip()
        printer.tell(f"{what}: {wording.describe(status, job.requeue_limit)}")
    counts = Counter(status.state for status in news.statuses)
    states = [f"{counts[state]} {state.value}" for state in JobState if counts[state]]
    printer.tell(f"{name}: {', '.join(states)}")


def show(runs: Runs, statuses: Sequence[Status], as_json: bool, sort: str | None = None) -> None:
    """Print what all runs have reached; raise UsageError for a `sort` that none of them has."""
    read = [job_record.result(paths) for paths, _ in runs]
    printer.tell_first([why for _, why in read if why])
    results = [result for result, _ in read]
    if not as_json:
        _table(runs, statuses, [result or {} for result in results], sort)
        return
    records = [
        {
            **facts(paths, job),
            "state": status.state.name,
            "reason": status.reason,
            "restarts": status.restart,
            "exit_code": status.exit_code,
            "result": result,
        }
        for (paths, job), status, result in zip(runs, statuses, results)
    ]
    printer.print_json(records)


def _table(
    runs: Runs, statuses: Sequence[Status], results: list[dict[str, Any]], sort: str | None
) -> None:
    """Print a line for each run: what it was asked, how it stands, what it reached; best first."""
    from ...scale import compare  # which `wait` and `cancel` need not load

    names = compare.names([job.varied for _, job in runs])
    ranking = compare.rank(results, sort)
    reached, metric = ranking.metrics, ranking.metric
    rows = []
    for place in ranking.order:
        (_, job), now = runs[place], statuses[place]
        own = [status_view.visible(job.varied.get(name, "")) for name in names]
        ends = [printer.text(results[place].get(name)) for name in reached]
        code = "" if now.exit_code is None else now.exit_code
        rows.append([job.id, *own, wording.describe(now, job.requeue_limit), code, *ends])
    headers = ["id", *names, "state", "exit code", *reached]
    printer.table(rows, headers, reached[1:])
    if metric:
        best = ranking.order[0]
        job, value = runs[best][1], printer.text(results[best][metric])
        what = f"{job.id}  {status_view.varied(job.varied)}".rstrip()
        click.echo(f"best {metric}: {what}, {value}", err=True)
