"""The state of jobs, and waiting for their end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..contract.exit_codes import EXIT_STOPPED
from ..core import files, job_record
from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.model import SchedulerName
from ..core.progress import Listener
from ..schedulers import CAPABILITIES, SCHEDULERS
from . import script_starts
from .find_run import Run, Runs

SECONDS_BETWEEN_LOOKS = 0.2
# Sites ask not to be asked often: what is seen in a run's folder comes first.
SECONDS_BETWEEN_QUESTIONS = 2.0
PAUSE_PENDING, PAUSE_RUNNING, PAUSE_HERE = 30.0, 10.0, 1.0

FORGOTTEN = "the scheduler has forgotten it, and it left no record"
DELETED = "its folder was deleted while it ran, and with it what would tell how it ended"
CAN_BE_STOPPED = (JobState.FAILED, JobState.TIMEOUT, JobState.PREEMPTED)


def statuses(runs: Iterable[Run]) -> list[Status]:
    """Return the status of each run, however many, with two calls to each scheduler at most.

    One is for the jobs that have not been seen to end, the other asks its history for those that
    it has forgotten and that left no record. Raises SystemFault when it does not answer.
    """
    runs = list(runs)
    known: dict[str, Status] = {}
    for name in CAPABILITIES:
        ours = [run for run in runs if run[1].scheduler == name and not run[1].state]
        known.update(_ask(name, [run for run in ours if _is_here(run[1])]))
    return [_status(paths, job, known.get(job.id) or _elsewhere(job)) for paths, job in runs]


def last_known(runs: Runs, listener: Listener) -> list[Status]:
    """Return how runs stand; where a scheduler does not answer, what their folders say.

    That is told; what it said becomes the reason of the runs that have not ended.
    """
    try:
        return statuses(runs)
    except SystemFault as error:
        listener.tell(f"warning: {error}")
        recorded = [_status(paths, job, None) for paths, job in runs]
        return [x._replace(reason=error.what) if x.reason == FORGOTTEN else x for x in recorded]


def _ask(name: SchedulerName, runs: list[Run]) -> dict[str, Status]:
    if not runs:
        return {}
    known = SCHEDULERS[name].states([job.id for _, job in runs])
    gone = [job.id for paths, job in runs if job.id not in known and not paths.exit.exists()]
    return {**SCHEDULERS[name].history(gone), **known} if gone else known


def _is_here(job: Job) -> bool:
    """A process can be seen only on the machine that runs it."""
    return job.host in ("", os.uname().nodename)


def _elsewhere(job: Job) -> Status | None:
    reason = f"it was started on {job.host}, and can be seen only there"
    return None if _is_here(job) else Status(JobState.UNKNOWN, reason)


def status(paths: JobPaths, job: Job) -> Status:
    return statuses([(paths, job)])[0]


def _status(paths: JobPaths, job: Job, answer: Status | None) -> Status:
    """Combine what was recorded, what the scheduler says, and what the folder shows."""
    record = files.read_json(paths.exit) or {}
    code = record.get("exit_code")
    if job.state:
        code = EXIT_STOPPED if job.state == JobState.STOPPED.name else code
        now = Status(JobState[job.state], job.reason, code, job.restart, job.nodes, job.elapsed)
        return _completed(paths, now)
    if code is not None and (answer is None or answer.state == JobState.UNKNOWN):
        answer = Status(_state_of(code))
    elif code == 0 and job.requeue_limit and answer:
        # NOTE: Slurm up to 26.05 may start such a job once more (see script/exit_trap.py).
        answer = answer._replace(state=JobState.COMPLETED, reason="")
    answer = answer or Status(JobState.UNKNOWN, FORGOTTEN)
    if code is None and answer.state in CAN_BE_STOPPED and paths.stopped.exists():
        code = EXIT_STOPPED  # the ranks saved, and Slurm killed the script before it could say so
    now = _stopped(answer._replace(exit_code=code))
    if now.state == JobState.COMPLETED and not paths.root.is_dir():
        now = now._replace(state=JobState.UNKNOWN, reason=DELETED)
    if now.state.ended and now.state != JobState.UNKNOWN:
        if now.state in (JobState.FAILED, JobState.STOPPED) and _was_cancelled(paths):
            now = now._replace(state=JobState.CANCELLED, reason="")
        _keep(paths, job, now)
        return _completed(paths, now)
    return now


def _completed(paths: JobPaths, now: Status) -> Status:
    """Return the status of a job that has ended, with what its script has recorded of its starts.

    A scheduler tells of the last start alone, and of no nodes where nobody followed the job.
    """
    try:
        starts = script_starts.of_run(paths)
    except (OSError, *files.DAMAGED):
        return now
    if not starts:
        return now
    *earlier, last = [max(0.0, start.ended - start.began) for start in starts]
    return now._replace(
        restart=max(now.restart, len(earlier)),
        nodes=now.nodes or starts[-1].nodes,
        elapsed=sum(earlier) + (last if now.elapsed is None else now.elapsed),
    )


def _keep(paths: JobPaths, job: Job, now: Status) -> None:
    """Record how a job ended, because the scheduler forgets it (Slurm: MinJobAge).

    On a full disk, or in a folder that is gone, it is told only.
    """
    seen = replace(job, restart=now.restart, nodes=now.nodes, elapsed=now.elapsed)
    with contextlib.suppress(OSError):
        replace(seen, state=now.state.name, reason=now.reason).save(paths)


def _was_cancelled(paths: JobPaths) -> bool:
    """Whether `runner cancel` has said so meanwhile: an exit code alone does not tell."""
    record = files.read_json(paths.job) or {}
    return bool(record.get("state") == JobState.CANCELLED.name)


def _state_of(code: int) -> JobState:
    return JobState.COMPLETED if code == 0 else JobState.FAILED


def _stopped(now: Status) -> Status:
    """Return the same, where a job that saved its work has not failed."""
    if now.exit_code != EXIT_STOPPED or now.state not in CAN_BE_STOPPED:
        return now
    reason = "" if now.state == JobState.FAILED else now.state.value
    return now._replace(state=JobState.STOPPED, reason=reason)


def until_end(runs: Runs) -> Iterator[list[Status]]:
    """Yield how all runs stand, of one several times a second; the last time when all have ended.

    Looking at the runs' folders costs little; the scheduler is asked at once when something there
    has changed, and else less and less often: once for all that have not ended. Raises SystemFault
    when it does not answer the first question for several: nothing would be told of them.
    """
    pending = [Status(JobState.PENDING)]
    now, asked_at = statuses(runs) if runs[1:] else _again(runs, pending), time.monotonic()
    between = SECONDS_BETWEEN_LOOKS if len(runs) == 1 else SECONDS_BETWEEN_QUESTIONS
    pause, signs = SECONDS_BETWEEN_QUESTIONS, _signs(runs, now)
    while not all(current.state.ended for current in now):
        yield now
        time.sleep(between)
        if (seen := _signs(runs, now)) != signs:
            signs, pause = seen, 0.0
        if time.monotonic() - asked_at >= pause:
            now, asked_at = _again(runs, now), time.monotonic()
            states = {current.state for current in now if not current.state.ended}
            longest = PAUSE_PENDING if states == {JobState.PENDING} else PAUSE_RUNNING
            longest = PAUSE_HERE if runs[0][1].host else longest
            pause = min(max(between, pause * 1.5), longest)
    yield now


def _signs(runs: Runs, now: Sequence[Status]) -> list[tuple[float | None, ...]]:
    """Return what changes when a job begins, when its script ends, and when it is cancelled.

    The log grows all the time; while the job waits, it does so when the job begins, once more too.
    """
    return [
        (
            _written(Path(job.log)) if current.state == JobState.PENDING else None,
            _written(paths.exit),
            _written(paths.job),
        )
        for (paths, job), current in zip(runs, now)
    ]


def _written(path: Path) -> float | None:
    """Return when a file was last written; a job that begins once more removes its records."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _again(runs: Runs, last: Sequence[Status]) -> list[Status]:
    """Return the statuses; while the scheduler does not answer, the last ones with what it said.

    A job that waits for days must not be given up because its scheduler was restarted.
    """
    left = [place for place, known in enumerate(last) if not known.state.ended]
    try:
        answers = statuses(runs[place] for place in left)
    except SystemFault as error:
        answers = [_unanswered(*runs[place], last[place], error.what) for place in left]
    now = list(last)
    for place, answer in zip(left, answers):
        now[place] = answer
    return now


def _unanswered(paths: JobPaths, job: Job, last: Status, problem: str) -> Status:
    """Return the last status, or how the script ended; the scheduler is asked again for a cause."""
    code = job_record.exit_code(paths)
    if code is None or (code and job.requeue_limit):
        return last._replace(reason=f"{problem}; still waiting", exit_code=code)
    return _stopped(last._replace(state=_state_of(code), reason="", exit_code=code))
