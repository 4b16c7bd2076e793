"""Runs a study: submits what is to do, looks until all runs have ended, writes its results."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Union

from ..core import command_signals, job_record
from ..core.errors import Refused, SystemFault
from ..core.progress import Listener
from ..core.remedy import change
from ..core.text import first_few
from ..jobs import find_run, job_status
from ..launching import submit
from . import study, write_results
from .drafts import Drafts, PlannedRun
from .report import StudyReport
from .study import ENDED, PointState, PointStatus, StudyChanges, StudyPaths, StudyRecord
from .study_request import Point, StudyRequest

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_FOR_EACH = 0.02  # hundreds of folders on a shared disk are not looked into each second
SECONDS_BETWEEN_QUESTIONS = 10.0  # to the scheduler; a run's end is seen in its folder before


@dataclass(frozen=True)
class StudyOrder:
    """What is to be done: a new study of `question`, or one in `folder` as its own command asked.

    `words` are the command of a new one, whose folder may be left out. With `render_only` nothing
    is run. `at_once` bounds the runs that are in the queue, 0 does not.
    """

    question: StudyRequest | None = None
    folder: str | None = None
    changes: StudyChanges = field(default_factory=StudyChanges)
    words: tuple[str, ...] = ()
    render_only: bool = False
    at_once: int = 0


@dataclass(frozen=True)
class StudyWarning:
    """What may be wrong with a study that is about to begin."""

    text: str


@dataclass(frozen=True)
class StudyCounts:
    """How many runs stand how."""

    states: Mapping[PointState, int]


@dataclass(frozen=True)
class StudyWritten:
    """Where a study is written, whether it could be drawn, and what to do next."""

    paths: StudyPaths
    drawn: bool
    next_steps: Sequence[str]


# PointStatus: that of a run that has ended
StudyEvent = Union[StudyWarning, PointStatus, StudyCounts, StudyReport, StudyWritten]


def planned(order: StudyOrder, listener: Listener) -> tuple[list[PlannedRun], list[StudyWarning]]:
    """Return the runs that a study would have, and warnings; raises as `run`, writes nothing."""
    drafts = Drafts(*_opened(order), listener, dry_run=True)
    warnings = [StudyWarning(text) for text in drafts.check()]
    return drafts.planned(), warnings


def run(order: StudyOrder, listener: Listener) -> Iterator[StudyEvent]:
    """Do what a study needs, and yield what is new of it: at last its report, then where it is.

    Raises Refused where a run cannot work, UsageError for what cannot be meant, and as
    `Work.to_the_end` and `results.write`.
    """
    if order.render_only:
        paths = StudyPaths(Path(order.folder or ""))
        yield from _written(paths, write_results.write_again(paths, order.changes))
        return
    paths, record = _opened(order)
    drafts = Drafts(paths, record, listener)
    yield from map(StudyWarning, drafts.check())
    with drafts.begun():
        again = f"Go on: runner scale --continue {os.path.relpath(paths.root)}"
        statuses: list[PointStatus] = []
        with command_signals.saying(f"jobs in the queue go on. {again}"):
            for now in Work(drafts, order.at_once).to_the_end():
                yield from news(statuses, now)
                statuses = now
        report = write_results.write(paths, drafts.record, statuses)
        yield from _written(paths, report, again)


def _opened(order: StudyOrder) -> tuple[StudyPaths, StudyRecord]:
    if order.question is None:
        return study.reopen(order.folder or "", order.changes)
    return study.new(order.question, order.words, order.changes.references, order.folder)


def news(before: Sequence[PointStatus], now: Sequence[PointStatus]) -> Iterator[StudyEvent]:
    """Yield the runs that have ended since the last look, and the numbers where they changed.

    What had ended before the first look is counted only.
    """
    known = [status.paths for status in before or now if status.state in ENDED]
    for status in now:
        if status.state in ENDED and status.paths and status.paths not in known:
            yield status
    if _counts(now) != _counts(before):
        yield StudyCounts(_counts(now))


def _counts(statuses: Sequence[PointStatus]) -> Counter[PointState]:
    return Counter(status.state for status in statuses)


def _written(paths: StudyPaths, report: StudyReport, again: str = "") -> Iterator[StudyEvent]:
    """Yield a report, draw it, and yield where it is; `again` is the command for the rest."""
    yield report
    drawn = write_results.draw(report, paths)
    steps = [write_results.next_step(paths, report.failed[0]), again] if report.failed else []
    yield StudyWritten(paths, drawn, [step for step in steps if step])


@dataclass
class Work:
    """A study at work.

    `at_once` bounds the runs that are in the queue, 0 does not. The listener of the drafts is told
    what is submitted.
    """

    drafts: Drafts
    at_once: int
    known: dict[str, PointStatus] = field(default_factory=dict)
    retried: set[str] = field(default_factory=set)
    lost: set[Path] = field(default_factory=set)
    asked_at: float = 0.0
    bound: int | None = None

    @property
    def question(self) -> StudyRequest:
        return self.drafts.record.question

    def to_the_end(self) -> Iterator[list[PointStatus]]:
        """Submit and poll; yield how all points stand, each time, the last time when all is done.

        Runs that had failed before are tried once more. Raises Refused when nothing can be
        submitted, SystemFault when the scheduler does not answer the first question.
        """
        self.retried = {s.point.key for s in self.poll() if s.state is PointState.FAILED}
        while True:
            statuses = self.poll()
            if not self.retried and all(s.state in ENDED for s in statuses):
                yield statuses
                return
            self._submit(statuses)
            statuses = self.poll()
            yield statuses
            busy = sum(status.state is PointState.OPEN for status in statuses)
            time.sleep(SECONDS_BETWEEN_LOOKS + busy * SECONDS_FOR_EACH)

    def poll(self) -> list[PointStatus]:
        """Return how all points stand, from their folders and now and then from the scheduler."""
        paths = self.drafts.paths
        if time.monotonic() - self.asked_at > SECONDS_BETWEEN_QUESTIONS or not self.asked_at:
            self._ask(study.statuses(paths, self.question, self.known))
        statuses = [
            self._or_lost(status) for status in study.statuses(paths, self.question, self.known)
        ]
        self.known = {status.point.key: status for status in statuses}
        return statuses

    def _or_lost(self, status: PointStatus) -> PointStatus:
        if status.state is PointState.OPEN and status.paths and status.paths.root in self.lost:
            return replace(status, state=PointState.FAILED, reason=job_status.FORGOTTEN)
        return status

    def _ask(self, statuses: Sequence[PointStatus]) -> None:
        """Ask the scheduler for the open ones, all at once; it writes down those that have ended.

        Later on its silence is borne: jobs go on without it.
        """
        open_ones = [s.paths for s in statuses if s.paths and s.state is PointState.OPEN]
        first = not self.asked_at
        self.asked_at = time.monotonic()
        try:
            answers = job_status.statuses((paths, job_record.load(paths)) for paths in open_ones)
        except SystemFault:
            if first:
                raise
            return
        self.lost |= {paths.root for paths, now in zip(open_ones, answers) if now.state.ended}

    def _submit(self, statuses: Sequence[PointStatus]) -> None:
        """Submit what is to do, as much of it as there is room for."""
        todo = [
            s.point for s in statuses if s.state is PointState.TO_DO or s.point.key in self.retried
        ]
        busy = sum(s.state is PointState.OPEN for s in statuses)
        room = max(0, self.at_once - busy) if self.at_once else len(todo)
        if not todo or not room or (self.bound is not None and busy >= self.bound):
            return
        try:
            self._hand_over(todo[:room])
            self.bound = None
        except Refused as error:
            if not busy:
                if not error.remedies:  # where there may be so many jobs only
                    error.change(remedies=(change(at_once=1),))
                raise
            # Sites bound how many jobs a user may have: the rest goes when others have ended.
            self.bound = busy
            self.drafts.listener.tell(f"the rest is submitted when others have ended: {error.what}")

    def _hand_over(self, points: Sequence[Point]) -> None:
        drafts = self.drafts.of(points)
        jobs = submit.drafted(drafts)
        ids = list(dict.fromkeys(find_run.number(job.id) for job in jobs))
        runs = f"{len(drafts)} runs" if len(drafts) > 1 else drafts[0].paths.root.name
        word = "job" if len(ids) == 1 else "jobs"
        self.drafts.listener.tell(f"{runs} submitted: {word} {first_few(ids, 4)}")
        self.retried -= {point.key for point in points}
