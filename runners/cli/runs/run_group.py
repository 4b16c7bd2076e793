"""Runs that were submitted together: how they stand, waiting for them all, cancelling them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from ...core import job_record, signals
from ...core.errors import NotFound
from ...core.job_record import Job, JobPaths, JobState, Status
from ...jobs import job_status, wording
from ...jobs.find import Runs
from ...submit import job_array
from .. import printer
from . import job_end, status_view

TOLD = 3  # of the runs that failed, so many are told of at length


def facts(paths: JobPaths, job: Job) -> dict[str, Any]:
    return {"id": job.id, "folder": str(paths.root), "log": job.log, "varied": dict(job.varied)}


def wait(runs: Runs, as_json: bool = False, quiet: bool = False) -> int:
    """Wait for the end of all runs, telling of each; return the first code that is not 0."""
    last: list[Status] = []
    try:
        for now in job_status.until_end(runs):
            if not (as_json or quiet):
                _tell(runs, last, now)
            last = now
    except KeyboardInterrupt as interrupt:
        name = runs[0][1].array
        ways = f"come back: runner wait {name}; end it: runner cancel {name}"
        click.echo(f"\nrunner: left {name}; {ways}", err=True)
        return signals.code(interrupt)
    return _ended(runs, last, as_json, quiet)


def _tell(runs: Runs, last: Sequence[Status], now: Sequence[Status]) -> None:
    """Say which runs have ended since the last look, and in which states all of them are."""
    for place, ((_, job), status) in enumerate(zip(runs, now)):
        if status.state.ended and not (last and last[place].state.ended):
            what = f"{job.id} {status_view.varied(job.varied)}".rstrip()
            printer.tell(f"{what}: {wording.describe(status, job.requeue_limit)}")
    if not last or summary(last) != summary(now):
        printer.tell(f"{runs[0][1].array}: {summary(now)}")


def summary(statuses: Sequence[Status]) -> str:
    counts = Counter(status.state for status in statuses)
    return ", ".join(f"{counts[state]} {state.value}" for state in JobState if counts[state])


def _ended(runs: Runs, statuses: Sequence[Status], as_json: bool, quiet: bool) -> int:
    codes = [job_end.exit_code(paths, job, status) for (paths, job), status in zip(runs, statuses)]
    bad = [
        (run, status)
        for run, status, code in zip(runs, statuses, codes)
        if code and status.state != JobState.CANCELLED
    ]
    for (paths, job), status in bad[:TOLD]:
        job_end.ending(paths, job, status)
    if len(bad) > TOLD:
        name = runs[0][1].array
        printer.tell(f"{len(bad)} runs did not end well; see: runner status {name}")
    if as_json or not quiet:
        show(runs, statuses, as_json)
    return next((code for code in codes if code), 0)


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
    metric = compare.metric(results, sort)
    reached = list(dict.fromkeys([*([metric] if metric else []), *compare.metrics(results)]))
    rows = []
    for (_, job), now, result in zip(runs, statuses, results):
        own = [status_view.visible(job.varied.get(name, "")) for name in names]
        ends = [printer.text(result.get(name)) for name in reached]
        code = "" if now.exit_code is None else now.exit_code
        rows.append([job.id, *own, wording.describe(now, job.requeue_limit), code, *ends])
    order = compare.best_first(results, metric)
    headers = ["id", *names, "state", "exit code", *reached]
    printer.table([rows[place] for place in order], headers, reached[1:])
    if metric:
        _, job = runs[order[0]]
        value = printer.text(results[order[0]][metric])
        what = f"{job.id}  {status_view.varied(job.varied)}".rstrip()
        click.echo(f"best {metric}: {what}, {value}", err=True)


def cancel(runs: Runs) -> None:
    """Cancel what has not ended; a run that has keeps its state. Raises NotFound if all have."""
    name = runs[0][1].array
    left = [run for run, now in zip(runs, job_status.statuses(runs)) if not now.state.ended]
    if not left:
        raise NotFound(f"all runs of {name} have ended already", remedy=f"runner status {name}")
    job_array.cancel(left)
    click.echo(f"{name}: {len(left)} of {len(runs)} runs cancelled", err=True)
