"""Follows a job to its end: its place in the queue, its log, how far it is; waits."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from ..core.errors import SystemFault
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.progress import Listener
from ..jobs import job_status
from ..schedulers import SCHEDULERS
from . import wording
from .job_log import JobLog, concerns, is_startup_noise, rank_of, says_end
from .stall_notice import Stalls

SECONDS_BETWEEN_PLACES = 30.0  # in the queue: Slurm is asked for all that wait


class Screen:
    """Receives the events of a followed job; this one shows nothing."""

    def say(self, text: str) -> None:
        """Tell a sentence of ours."""

    def show(self, lines: list[bytes]) -> None:
        """Show lines of the job's log."""

    def at(self, line: bytes) -> bool:
        """Take a line that tells how far the job is; return whether it need not be printed."""
        return False

    def refresh(self, long: str, short: str) -> None:
        """Show that time passes, and how the job stands, in many words or few."""


class Follower:
    """What has been shown of a job so far, so that one can go on after an interruption."""

    def __init__(
        self, paths: JobPaths, job: Job, ranks: Collection[int] | None, stall_after: int | None
    ) -> None:
        self.paths, self.job, self.ranks = paths, job, ranks
        self.stalls = Stalls(paths, job, stall_after)
        self.log, self.told, self.explained = JobLog(Path(job.log)), "", False
        self.noise = False  # whether such lines were left out
        self.place, self.asked = "", -SECONDS_BETWEEN_PLACES

    def to_the_end(self, shown: Screen) -> Status:
        """Show the log as it grows and the state as it changes; return the last state."""
        for (now,) in job_status.until_end([(self.paths, self.job)]):
            self._tell(shown, now)
            self._pass_on(shown)
            if stalled := self.stalls.news(now):
                first, *table = stalled.splitlines()
                shown.say(f"runner: job {self.job.id}: {first}")
                for line in table:
                    shown.say(f"runner:   {line}")
        shown.show([x for x in (self.log.rest,) if x and concerns(x, self.ranks)])
        return now

    def _tell(self, shown: Screen, now: Status) -> None:
        """Say what has changed; what changes all the time is only beside the bar."""
        text = f"runner: job {self.job.id}: {wording.describe(now, self.job.requeue_limit)}"
        if now.state == JobState.PENDING:
            text += self._queued()
        if text != self.told:
            shown.say(text)
            self.told = text
        shown.refresh(wording.beside(self.job, now), f"job {self.job.id}")

    def _queued(self) -> str:
        """Return the place in the queue in words; "" while nobody knows it."""
        if time.monotonic() - self.asked >= SECONDS_BETWEEN_PLACES:
            self.asked = time.monotonic()
            try:
                self.place = wording.before_it(SCHEDULERS[self.job.scheduler].ahead(self.job.id))
            except SystemFault:  # the state says so too
                self.place = ""
        return self.place

    def _pass_on(self, shown: Screen) -> None:
        for lines in self.log.new():
            mine = [x for x in lines if not shown.at(x) and concerns(x, self.ranks)]
            if any(map(is_startup_noise, mine)):
                mine = [x for x in mine if not is_startup_noise(x)]
                if not self.noise:
                    self.noise = True
                    shown.say(
                        "runner: lines of TensorFlow's and c10d's start stay in the log alone"
                    )
            if not self.explained and any(rank_of(x) is not None for x in mine):
                self.explained = True
                shown.say("runner: lines begin with rank@host")
            shown.show([x for x in mine if not (says_end(x) and self._recorded())])

    def _recorded(self) -> bool:
        """Whether a rank left a record of its failure: what Slurm says of it tells no more."""
        return next(self.paths.failures.glob("rank-*.json"), None) is not None


def wait(
    paths: JobPaths, job: Job, seconds: float | None = None, listener: Listener | None = None
) -> Status:
    """Wait for a job's end, or `seconds` at most; return how it stands, and tell each change."""
    deadline, before = None if seconds is None else time.monotonic() + seconds, None
    for (now,) in job_status.until_end([(paths, job)]):
        if listener and now != before:
            listener.tell(f"job {job.id}: {wording.describe(now)}")
        before = now
        if deadline is not None and time.monotonic() >= deadline:
            break
    return now
