"""Runs that were submitted together: what is new of them, how they ended and why; cancels them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import job_record, trust
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState, Status
from ..explain.explanation import Explanation
from ..jobs import find_run, job_status
from ..jobs.find_run import Runs, whole_id
from ..schedulers import SCHEDULERS
from . import end
from .end import JobEnd

GOOD = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETED, JobState.STOPPED)
EXPLAINED = 3  # of the runs that failed; the others mostly failed alike
Explained = tuple[Job, Explanation]


@dataclass(frozen=True)
class GroupNews:
    """How all runs stand, and which of them have ended since the last news."""

    statuses: Sequence[Status]
    ended: Sequence[tuple[Job, Status]]


@dataclass(frozen=True)
class GroupEnd:
    """How runs ended: the first exit code that is not 0, and how many failed by themselves.

    Why the first of those failed is in `explained`.
    """

    exit_code: int
    failed: int
    explained: Sequence[JobEnd]


@dataclass(frozen=True)
class RunResult:
    """How a run stands, and what its trainer wrote; `odd` is why that cannot be read."""

    paths: JobPaths
    job: Job
    status: Status
    result: dict[str, Any] | None
    odd: str


def news(runs: Runs) -> Iterator[GroupNews]:
    """Yield how runs stand, whenever their number in a state changes, until all have ended.

    Raises as `job_status.until_end`.
    """
    last: list[Status] = []
    for now in job_status.until_end(runs):
        if not last or _counts(now) != _counts(last):
            before = last or [Status(JobState.PENDING)] * len(runs)
            ended = [
                (job, status)
                for (_, job), old, status in zip(runs, before, now)
                if status.state.ended and not old.state.ended
            ]
            yield GroupNews(now, ended)
        last = now


def _counts(statuses: Sequence[Status]) -> Counter[JobState]:
    return Counter(status.state for status in statuses)


def ended(runs: Runs, statuses: Sequence[Status]) -> GroupEnd:
    """Return how runs ended that have all done so."""
    pairs = list(zip(runs, statuses))
    codes = [end.exit_code(*run, status) for run, status in pairs]
    failed = [
        (run, status)
        for (run, status), code in zip(pairs, codes)
        if code and status.state != JobState.CANCELLED
    ]
    explained = [end.of_job(*run, status) for run, status in failed[:EXPLAINED]]
    return GroupEnd(next(filter(None, codes), 0), len(failed), explained)


def results(runs: Runs, statuses: Sequence[Status]) -> list[RunResult]:
    """Return what runs have reached that stand so."""
    return [
        RunResult(paths, job, status, *job_record.result(paths))
        for (paths, job), status in zip(runs, statuses)
    ]


def facts(run: RunResult) -> dict[str, Any]:
    """Return for programs how a run stands and what it reached."""
    return {
        **find_run.facts(run.paths, run.job),
        "state": run.status.state.name,
        "reason": run.status.reason,
        "restarts": run.status.restart,
        "exit_code": run.status.exit_code,
        "result": run.result,
    }


def explained(runs: Runs) -> list[Explained]:
    """Return why those runs ended that did not end well, with one scheduler call for all."""
    pairs = zip(runs, job_status.statuses(runs))
    bad = [(run, status) for run, status in pairs if status.state not in GOOD]
    return [(job, end.explain(paths, job, status)) for (paths, job), status in bad]


def by_cause(explanations: Sequence[Explained]) -> list[list[Explained]]:
    """Group by what failed, the most frequent first; the first of a group stands for it."""
    groups: dict[str, list[Explained]] = {}
    for job, why in explanations:
        groups.setdefault(why.id, []).append((job, why))
    return sorted(groups.values(), key=len, reverse=True)


def cancel(runs: Runs) -> int:
    """Cancel what has not ended of one run or several, of an array all by one call.

    Returns how many are recorded as cancelled: not one that has completed meanwhile. Raises
    SystemFault when a scheduler does not cancel, UsageError for one of another user, whose record
    could name any job.
    """
    left = _not_ended(runs)
    for paths, _ in left:
        trust.check(paths.root, os.environ)
    ids = [(job.scheduler, job.id if len(runs) == 1 else whole_id(job)) for _, job in left]
    for scheduler, id in dict.fromkeys(ids):
        SCHEDULERS[scheduler].cancel(id)
    ended = [run for run in left if job_record.exit_code(run[0]) != 0]
    for paths, job in ended:
        replace(job, state=JobState.CANCELLED.name).save(paths)
    return len(ended)


def _not_ended(runs: Runs) -> Runs:
    """Return the runs that have not ended; a scheduler that does not tell may still cancel them."""
    try:
        now = job_status.statuses(runs)
    except SystemFault:
        return [run for run in runs if not run[1].state and job_record.exit_code(run[0]) is None]
    return [run for run, status in zip(runs, now) if not status.state.ended]
