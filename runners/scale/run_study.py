"""Runs a study: plans its runs, submits what is to do, and looks until all have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import job_record, locks
from ..core.command_line import CommandLine
from ..core.errors import Refused, SystemFault
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import change
from ..core.text import first_few
from ..jobs import find, job_status
from ..launching import gather, submit
from ..script import render
from ..submit.launch import Draft
from . import study, study_request
from .study import ENDED, PointState, PointStatus, StudyPaths, StudyRecord
from .study_request import Point, StudyRequest

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_FOR_EACH = 0.02  # hundreds of folders on a shared disk are not looked into each second
SECONDS_BETWEEN_QUESTIONS = 10.0  # to the scheduler; a run's end is seen in its folder before


class Drafts:
    """The drafts of a study's runs. The machine is asked once for each size and variant."""

    def __init__(
        self, paths: StudyPaths, record: StudyRecord, listener: Listener, dry_run: bool = False
    ) -> None:
        self.paths, self.record, self.listener, self.dry_run = paths, record, listener, dry_run
        self.plans: dict[tuple[str, str], Plan] = {}

    def of(self, points: Sequence[Point]) -> list[Draft]:
        """Return a draft for each point, in a folder for its next attempt.

        Raises Refused when one of them cannot work.
        """
        typed = CommandLine(words=self.record.words)
        drafts = []
        for point, paths in zip(points, study.next_attempts(self.paths, points)):
            made = self.plan(point)
            drafts.append(Draft(made, paths, render.render(made, paths, os.getcwd()), typed=typed))
        return drafts

    def check(self) -> list[str]:
        """Plan every run; return all warnings, once.

        Raises what one of them is refused for, and UsageError where no epoch is left to measure.
        """
        question = self.record.question
        study_request.check_epochs(question.args, question.drop)
        warnings = [one.what for _, plan in self.planned() for one in plan.warnings]
        return [
            *study_request.may_be_short(question.args, question.drop),
            *dict.fromkeys(warnings),
        ]

    def planned(self) -> list[tuple[Point, Plan]]:
        """Return all runs, each with its plan; raise Refused when one of them cannot work."""
        return [(point, self.plan(point)) for point in self.record.question.points()]

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Write the study down, grown to what is asked now, and keep it from others meanwhile."""
        busy = f"another runner scale is at work on {self.paths.root}"
        with locks.try_exclusive(self.paths.lock, busy):
            self.record = study.begin(self.paths, self.record)
            yield

    def plan(self, point: Point) -> Plan:
        """Return the plan of a point's runs; raise Refused when it cannot work."""
        key = (point.variant.label, str(point.size))
        if key not in self.plans:
            self.plans[key] = self._solve(point)
        return self.plans[key]

    def _solve(self, point: Point) -> Plan:
        question = self.record.question
        flags: dict[str, Any] = {**question.settings(point), "runs-dir": str(self.paths.runs)}
        trainer = question.trainer_of(point)
        made = gather.plan(trainer, question.args, flags, self.dry_run, self.listener)
        if made.refusals:
            first = made.refusals[0]
            where = f"{point.size} nodes {point.variant.label}".strip()
            raise Refused(f"{where}: {first.what}", first.evidence, first.remedies)
        args = question.args_of(made.resources.tasks)
        own = replace(made.spec.trainer, args=args)
        return replace(made, spec=replace(made.spec, trainer=own))


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
            busy = sum(each.state is PointState.OPEN for each in statuses)
            time.sleep(SECONDS_BETWEEN_LOOKS + busy * SECONDS_FOR_EACH)

    def poll(self) -> list[PointStatus]:
        """Return how all points stand, from their folders and now and then from the scheduler."""
        paths = self.drafts.paths
        if time.monotonic() - self.asked_at > SECONDS_BETWEEN_QUESTIONS or not self.asked_at:
            self._ask(study.statuses(paths, self.question, self.known))
        statuses = [self._or_lost(one) for one in study.statuses(paths, self.question, self.known)]
        self.known = {each.point.key: each for each in statuses}
        return statuses

    def _or_lost(self, each: PointStatus) -> PointStatus:
        if each.state is PointState.OPEN and each.paths and each.paths.root in self.lost:
            return replace(each, state=PointState.FAILED, reason=job_status.FORGOTTEN)
        return each

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
                fewer = [change(at_once=1)]  # where there may be so many jobs only
                raise Refused(error.what, error.evidence, error.remedies or fewer) from None
            # Sites bound how many jobs a user may have: the rest goes when others have ended.
            self.bound = busy
            self.drafts.listener.tell(f"the rest is submitted when others have ended: {error.what}")

    def _hand_over(self, points: Sequence[Point]) -> None:
        drafts = self.drafts.of(points)
        jobs = submit.drafted(drafts)
        ids = list(dict.fromkeys(find.number(job.id) for job in jobs))
        runs = f"{len(drafts)} runs" if len(drafts) > 1 else drafts[0].paths.root.name
        word = "job" if len(ids) == 1 else "jobs"
        self.drafts.listener.tell(f"{runs} submitted: {word} {first_few(ids, 4)}")
        self.retried -= {point.key for point in points}
