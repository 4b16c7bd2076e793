"""Looks at jobs: their state, waiting for the end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import files, job_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState
from ..injob.rank.early_stop import EXIT_STOPPED
from ..schedulers import SCHEDULERS
from ..schedulers.base import SchedulerStatus

SECONDS_BETWEEN_LOOKS = 0.2
# Sites ask not to be asked often: what is seen in a run's folder comes first.
SECONDS_BETWEEN_QUESTIONS = 2.0
PAUSE_PENDING, PAUSE_RUNNING, PAUSE_HERE = 30.0, 10.0, 1.0

FORGOTTEN = "the scheduler has forgotten it, and it left no record"
CAN_BE_STOPPED = (JobState.FAILED, JobState.TIMEOUT, JobState.PREEMPTED)


@dataclass(frozen=True)
class Status:
    """A job's state, the scheduler's reason, and the exit code once there is one.

    The rest is as in SchedulerStatus; what passes with time does not make two states differ.
    """

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    restart: int = 0
    nodes: str = field(default="", compare=False)
    elapsed: float | None = field(default=None, compare=False)
    left: float | None = field(default=None, compare=False)
    start: float | None = field(default=None, compare=False)


def statuses(runs: Iterable[tuple[JobPaths, Job]]) -> list[Status]:
    """Return the status of each run, however many, with two calls to each scheduler at most.

    One is for the jobs that have not been seen to end, the other asks its history for those that
    it has forgotten and that left no record. Raises SystemFault when it does not answer.
    """
    runs = list(runs)
    known: dict[str, SchedulerStatus] = {}
    for name in SCHEDULERS:
        ours = [run for run in runs if run[1].scheduler == name and not run[1].state]
        known.update(_ask(name, [run for run in ours if _is_here(run[1])]))
        known.update({job.id: _elsewhere(job) for _, job in ours if not _is_here(job)})
    return [_status(paths, job, known.get(job.id)) for paths, job in runs]


def _ask(scheduler: str, runs: list[tuple[JobPaths, Job]]) -> dict[str, SchedulerStatus]:
    if not runs:
        return {}
    known = SCHEDULERS[scheduler].states([job.id for _, job in runs])
    gone = [job.id for paths, job in runs if job.id not in known and not paths.exit.exists()]
    return {**SCHEDULERS[scheduler].history(gone), **known} if gone else known


def _is_here(job: Job) -> bool:
    """A process can be seen only on the machine that runs it."""
    return job.host in ("", os.uname().nodename)


def _elsewhere(job: Job) -> SchedulerStatus:
    reason = f"it was started on {job.host}, and can be seen only there"
    return SchedulerStatus(JobState.UNKNOWN, reason)


def status(paths: JobPaths, job: Job) -> Status:
    """Return the status of one run."""
    return statuses([(paths, job)])[0]


def _status(paths: JobPaths, job: Job, told: SchedulerStatus | None) -> Status:
    """Combine what was recorded, what the scheduler says, and what the folder shows."""
    record = files.read_json(paths.exit) or {}
    code, seconds = record.get("exit_code"), _seconds(record)
    if job.state:
        known = EXIT_STOPPED if job.state == JobState.STOPPED.name else code
        elapsed = seconds if job.elapsed is None else job.elapsed
        return Status(JobState[job.state], job.reason, known, job.restart, job.nodes, elapsed)
    if told is None or (told.state == JobState.UNKNOWN and code is not None):
        told = _from_folder(code) or SchedulerStatus(JobState.UNKNOWN, FORGOTTEN)
    elif code == 0 and job.restarts:
        # NOTE: Slurm up to 26.05 may start such a job once more (see script/exit_trap.py).
        told = told._replace(state=JobState.COMPLETED, reason="")
    if code is None and told.state in CAN_BE_STOPPED and paths.stopped.exists():
        code = EXIT_STOPPED  # the ranks saved, and Slurm killed the script before it could say so
    state, reason = _stopped(told, code)
    if state.ended and state != JobState.UNKNOWN:
        if state in (JobState.FAILED, JobState.STOPPED) and _was_cancelled(paths):
            state, reason = JobState.CANCELLED, ""
        # Written down, because the scheduler forgets (Slurm: MinJobAge).
        _keep(replace(job, state=state.name, reason=reason, **_lasting(told)), paths)
    elapsed = seconds if told.elapsed is None else told.elapsed
    return Status(state, reason, code, told.restart, told.nodes, elapsed, told.left, told.start)


def _keep(job: Job, paths: JobPaths) -> None:
    """Write down how a job ended; on a full disk, or in a folder that is gone, it is told only."""
    with contextlib.suppress(OSError):
        job.save(paths)


def _was_cancelled(paths: JobPaths) -> bool:
    """Whether `runner cancel` has said so meanwhile: an exit code alone does not tell."""
    record = files.read_json(paths.job) or {}
    return bool(record.get("state") == JobState.CANCELLED.name)


def _seconds(record: dict[str, Any]) -> float | None:
    """Return how long the script ran, None while it runs."""
    return max(0.0, record["time"] - record["began"]) if "began" in record else None


def _lasting(told: SchedulerStatus) -> dict[str, Any]:
    return {"restart": told.restart, "nodes": told.nodes, "elapsed": told.elapsed}


def _from_folder(code: int | None) -> SchedulerStatus | None:
    if code is None:
        return None
    return SchedulerStatus(JobState.COMPLETED if code == 0 else JobState.FAILED)


def _stopped(told: SchedulerStatus, code: int | None) -> tuple[JobState, str]:
    """Return the state and why; a job that saved its work has not failed."""
    if code != EXIT_STOPPED or told.state not in CAN_BE_STOPPED:
        return told.state, told.reason
    return JobState.STOPPED, "" if told.state == JobState.FAILED else told.state.value


def until_end(paths: JobPaths, job: Job) -> Iterator[Status]:
    """Yield the status several times a second, the last one being the end's.

    Looking at the run's folder costs nothing; the scheduler is asked at once when something there
    has changed, and else less and less often.
    """
    now, asked = _again(paths, job, Status(JobState.PENDING)), time.monotonic()
    pause = SECONDS_BETWEEN_QUESTIONS
    signs = _signs(paths, job, now)
    while not now.state.ended:
        yield now
        time.sleep(SECONDS_BETWEEN_LOOKS)
        if (seen := _signs(paths, job, now)) != signs:
            signs, pause = seen, 0.0
        if time.monotonic() - asked >= pause:
            now, asked = _again(paths, job, now), time.monotonic()
            pause = min(max(SECONDS_BETWEEN_LOOKS, pause * 1.5), _longest_pause(job, now))
    yield now


def _signs(paths: JobPaths, job: Job, now: Status) -> tuple[float | None, ...]:
    """Return what changes when a job begins, when its script ends, and when it is cancelled.

    The log grows all the time; while the job waits, it does so when the job begins, once more too.
    """
    log = _written(Path(job.log)) if now.state == JobState.PENDING else None
    return (log, _written(paths.exit), _written(paths.job))


def _written(path: Path) -> float | None:
    """Return when a file was last written; a job that begins once more removes its records."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _longest_pause(job: Job, now: Status) -> float:
    if job.host:
        return PAUSE_HERE
    return PAUSE_PENDING if now.state == JobState.PENDING else PAUSE_RUNNING


def _again(paths: JobPaths, job: Job, last: Status) -> Status:
    """Return the status; while the scheduler does not answer, the last one with what it said.

    A job that waits for days must not be given up because its scheduler was restarted.
    """
    try:
        return status(paths, job)
    except SystemFault as error:
        code = job_record.exit_code(paths)
        still = SchedulerStatus(last.state, f"{error.message}; still waiting", last.restart)
        told = (_from_folder(code) if code == 0 or not job.restarts else None) or still
        return Status(*_stopped(told, code), code, told.restart, last.nodes)


def without_asking(runs: Iterable[tuple[JobPaths, Job]], why: str) -> list[Status]:
    """Return what the folders alone say; `why` becomes the reason of those that have not ended."""
    found = [_status(paths, job, None) for paths, job in runs]
    return [replace(each, reason=why) if each.reason == FORGOTTEN else each for each in found]


def ahead(job: Job) -> int | None:
    """Return how many jobs that wait in its partition come before it; None where nobody tells.

    Sites that show everyone only their own jobs count no others. Raises SystemFault when the
    scheduler does not answer.
    """
    return SCHEDULERS[job.scheduler].ahead(job.id)
