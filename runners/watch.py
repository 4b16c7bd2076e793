"""Looks at jobs: state, log as it grows, waiting for the end, how it ended."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from . import jobs, lost
from .errors import SystemFault
from .jobs import Job, JobPaths, JobState
from .rank.stopped import EXIT_STOPPED
from .schedulers import SCHEDULERS

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_QUESTIONS = 2.0
LABELLED = re.compile(r"(\d+)@\S+ \| ")


FORGOTTEN = "the scheduler has forgotten it, and it left no record"
CAN_BE_STOPPED = (JobState.FAILED, JobState.TIMEOUT, JobState.PREEMPTED)


class Told(NamedTuple):
    """What a scheduler says of a job: its state, why, and how often it came back."""

    state: JobState
    reason: str = ""
    restart: int = 0


@dataclass(frozen=True)
class Status:
    """A job's state, the scheduler's reason, and the exit code once there is one.

    `restart` counts how often it came back.
    """

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    restart: int = 0


def statuses(runs: Iterable[tuple[JobPaths, Job]]) -> list[Status]:
    """Return the status of each run, with one call to each scheduler that has open ones."""
    runs = list(runs)
    known: dict[str, Told] = {}
    for name, scheduler in SCHEDULERS.items():
        ids = [job.id for _, job in runs if job.scheduler == name and not job.state]
        if ids:
            known.update({id: Told(*answer) for id, answer in scheduler.states(ids).items()})
    return [_status(paths, job, known.get(job.id)) for paths, job in runs]


def status(paths: JobPaths, job: Job) -> Status:
    """Return the status of one run."""
    return statuses([(paths, job)])[0]


def _status(paths: JobPaths, job: Job, told: Told | None) -> Status:
    """Combine what was recorded, what the scheduler says, and what the folder shows."""
    code = jobs.exit_code(paths)
    if job.state:
        known = EXIT_STOPPED if job.state == JobState.STOPPED.name else code
        return Status(JobState[job.state], "", known, job.restart)
    if told is None:
        told = _from_folder(code) or _remembered(job)
    elif code == 0 and job.restarts:
        # NOTE: Slurm up to 26.05 may start such a job once more (see runners/ending.py).
        told = Told(JobState.COMPLETED, "", told.restart)
    if code is None and told.state in CAN_BE_STOPPED and paths.stopped.exists():
        code = EXIT_STOPPED  # the ranks saved, and Slurm killed the script before it could say so
    state, reason = _stopped(told, code)
    if state.ended and state != JobState.UNKNOWN:
        # Written down, because the scheduler forgets (Slurm: MinJobAge).
        replace(job, state=state.name, restart=told.restart).save(paths)
    return Status(state, reason, code, told.restart)


def _remembered(job: Job) -> Told:
    answer = SCHEDULERS[job.scheduler].history(job.id)
    return Told(*answer) if answer else Told(JobState.UNKNOWN, FORGOTTEN)


def _from_folder(code: int | None) -> Told | None:
    if code is None:
        return None
    return Told(JobState.COMPLETED if code == 0 else JobState.FAILED)


def _stopped(told: Told, code: int | None) -> tuple[JobState, str]:
    """Return the state and why; a job that saved its work has not failed."""
    if code != EXIT_STOPPED or told.state not in CAN_BE_STOPPED:
        return told.state, told.reason
    return JobState.STOPPED, "" if told.state == JobState.FAILED else told.state.value


def until_end(paths: JobPaths, job: Job) -> Iterator[Status]:
    """Yield the status several times a second, the last one being the end's.

    Looking for the exit record costs nothing; the scheduler is asked seldom.
    """
    now, asked = status(paths, job), time.monotonic()
    while not now.state.ended:
        yield now
        time.sleep(SECONDS_BETWEEN_LOOKS)
        if _may_have_ended(paths, job) or time.monotonic() - asked > SECONDS_BETWEEN_QUESTIONS:
            now, asked = _again(paths, job, now), time.monotonic()
    yield now


def _may_have_ended(paths: JobPaths, job: Job) -> bool:
    """A job that comes back may have left the record of an end that was none."""
    return jobs.exit_code(paths) == 0 if job.restarts else paths.exit.exists()


def _again(paths: JobPaths, job: Job, last: Status) -> Status:
    """Return the status; while the scheduler does not answer, the last one with what it said.

    A job that waits for days must not be given up because its scheduler was restarted.
    """
    try:
        return status(paths, job)
    except SystemFault as error:
        code = jobs.exit_code(paths)
        still = Told(last.state, f"{error.message}; still waiting", last.restart)
        told = (_from_folder(code) if code == 0 or not job.restarts else None) or still
        return Status(*_stopped(told, code), code, told.restart)


class Log:
    """The job's log, read from where the last read ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def new_lines(self) -> list[str]:
        """Return the complete lines that have come since the last call; none before it exists."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                chunk = file.read()
        except FileNotFoundError:
            return []
        self.offset += len(chunk)
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def last_line(self) -> list[str]:
        """Return what stands after the last line end, once nothing more will come."""
        return [self.rest.decode("utf-8", "replace")] if self.rest else []


def concerns(line: str, rank: int | None) -> bool:
    """Whether a log line is of this rank, or of no rank (Slurm's, the runner's); None is all."""
    match = LABELLED.match(line)
    return rank is None or match is None or int(match.group(1)) == rank


def culprit(paths: JobPaths, job: Job) -> str | None:
    """Return what failed first, as `rank R@HOST: how`, None when nobody left a trace."""
    failure = jobs.first_failure(paths)
    if failure and not jobs.is_follower(failure):
        return _told(failure)
    log = Path(job.log)
    named = lost.task(log.read_text(errors="replace")) if log.is_file() else None
    if named:
        return f"rank {named}"
    return _told(failure) if failure else None


def _told(failure: dict[str, Any]) -> str:
    """Before there are ranks, a node may fail: the one that was to have the data."""
    rank, host, message = (failure[name] for name in ("rank", "host", "message"))
    return f"data on {host}: {message}" if rank is None else f"rank {rank}@{host}: {message}"
