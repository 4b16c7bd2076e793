"""Detects stalls of a followed job, the ranks that lag, and a limit that comes before its end."""

from __future__ import annotations

import os
import time

from ..core import shell, trust
from ..core.errors import RunnerError
from ..core.job_record import Job, JobPaths, JobState, Status
from ..jobs import metrics_tail, stalls, wording
from ..jobs.metrics_tail import Reading
from ..jobs.stalls import RankSample, Stall
from ..schedulers import SCHEDULERS
from ..settings import config

SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_FOR_THE_STEP = 20.0
TAIL = 2**16  # bytes of the log, in which Horovod may have named the missing ranks


class Stalls:
    """Looks now and then at a job that is followed; says each stall once, and that it is over."""

    def __init__(self, paths: JobPaths, job: Job, after: int | None) -> None:
        self.paths, self.job = paths, job
        self.limit = limit(after)
        self.looked = 0.0
        self.reported: int | None = None  # the step at which it stalled
        self.first: Reading | None = None
        self.too_short = False  # whether that was said

    def news(self, now: Status) -> str:
        """Return what there is to say, "" mostly."""
        due = time.monotonic() - self.looked >= SECONDS_BETWEEN_LOOKS
        if now.state != JobState.RUNNING or not due:
            return ""
        self.looked = time.monotonic()
        reading = metrics_tail.last(self.paths)
        if reading and self.reported is not None and reading.step > self.reported:
            self.reported = None
            return f"it goes on: step {reading.step}"
        if short := self._too_short(reading, now.left):
            return short
        found = stalls.find_stall(reading, time.time(), self.limit)
        if found is None or found.step == self.reported:
            return ""
        self.reported = found.step
        return stalls.in_words(of_job(self.paths, self.job, self.limit) or found)

    def _too_short(self, reading: Reading | None, left: float | None) -> str:
        """Say once that the job reaches its limit first; a job that is requeued resumes."""
        if reading is None or self.too_short or self.job.restarts:
            return ""
        self.first = self.first or reading
        needed = stalls.short_of_time(self.first, reading, left)
        self.too_short = needed is not None
        return (
            f"at this pace the training needs {wording.span(needed)} more, and its limit comes in "
            f"{wording.span(left)}: a longer --time, or --requeue, which resumes from checkpoints"
            if needed
            else ""
        )


def limit(after: int | None = None) -> float:
    """Return after how many seconds without a step a job has stalled: a flag's, or a setting."""
    return float(after or config.load({}, os.environ).get("stall-after") or stalls.SECONDS)


def of_job(paths: JobPaths, job: Job, after: float | None = None) -> Stall | None:
    """Return the stall of a job that runs, with who lags; None if it has none."""
    reading, seconds = metrics_tail.last(paths), after or limit()
    if stalls.find_stall(reading, time.time(), seconds) is None:
        return None
    return stalls.find_stall(reading, time.time(), seconds, _tail(job.log), _samples(paths, job))


def _samples(paths: JobPaths, job: Job) -> list[RankSample]:
    """Ask each node in a step beside the ranks; nothing where that cannot be had in time.

    Nor of another user's run: its own code is what asks.

    By the host's Python: to start a container may be what does not work any more.
    """
    steps = SCHEDULERS[job.scheduler].STEPS
    if steps is None:
        return []
    script = str(paths.code / "injob/rank/sample_ranks.py")
    command = ["python3", script, str(paths.root)]
    try:
        trust.check(paths.root, os.environ)
        argv = steps.argv(steps.place(job.id), command)
        answer = shell.run(argv, steps.environment(), timeout=SECONDS_FOR_THE_STEP)
        return stalls.parse(answer.out)
    except RunnerError:  # what is known without it is said
        return []


def _tail(log: str) -> list[str]:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            return file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
