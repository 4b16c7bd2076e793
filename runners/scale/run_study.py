"""Gets a study done: submits what is to do, and looks until all of it has ended.

Runs may share one allocation, one after the other, each on as many nodes as it needs. Small sizes
leave nodes idle then, but all sizes are measured on the same nodes, and wait only once.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core import job_record, signals
from ..core.errors import Refused, SystemFault
from ..core.job_record import Job, JobPaths, JobState
from ..core.plan import Interruption, Plan
from ..core.remedy import change
from ..jobs import find, job_status
from ..launching import submit
from ..schedulers import SCHEDULERS, capabilities
from ..script import exit_trap
from ..submit import job_array, launch
from ..submit.launch import Draft
from . import study
from .drafts import Drafts
from .study import ENDED, PointState, PointStatus, StudyPaths
from .study_request import Point, StudyRequest

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_FOR_EACH = 0.02  # hundreds of folders on a shared disk are not looked into each second
SECONDS_BETWEEN_QUESTIONS = 10.0  # to the scheduler; a run's end is seen in its folder before
NAME = re.compile(r"allocation-(\d+)")
ONE_BY_ONE = """\
ended= failed=0
trap 'ended=yes' TERM  # Slurm sends it to the ranks too; no other run begins then
for each in "${runs[@]}"; do
  [ -z "$ended" ] || exit 1
  echo "runner: $each"
  bash "$each/job.sbatch" > "$each/logs/job.log" 2>&1 || failed=1
done
exit "$failed"
"""


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
    asked: float = 0.0
    bound: int | None = None

    @property
    def paths(self) -> StudyPaths:
        return self.drafts.paths

    @property
    def question(self) -> StudyRequest:
        return self.drafts.asked.question

    def to_the_end(self) -> Iterator[list[PointStatus]]:
        """Submit and look; yield how all points stand, each time, the last time when all is done.

        Runs that had failed before are tried once more. Raises Refused when nothing can be
        submitted, SystemFault when the scheduler does not answer the first question.
        """
        self.retried = {s.point.key for s in self.look() if s.state is PointState.FAILED}
        while True:
            statuses = self.look()
            if not self.retried and all(s.state in ENDED for s in statuses):
                yield statuses
                return
            self._submit(statuses)
            statuses = self.look()
            yield statuses
            busy = sum(each.state is PointState.OPEN for each in statuses)
            time.sleep(SECONDS_BETWEEN_LOOKS + busy * SECONDS_FOR_EACH)

    def submit(self) -> list[PointStatus]:
        """Submit all that is to do and do not wait; return how the points stand."""
        return next(self.to_the_end())

    def look(self) -> list[PointStatus]:
        """Return how all points stand, from their folders and now and then from the scheduler."""
        if time.monotonic() - self.asked > SECONDS_BETWEEN_QUESTIONS or not self.asked:
            self._ask(study.look(self.paths, self.question, self.known))
        # Before its runs are: the last of them may end, and it with them, while they are read.
        newest = _allocations(self.paths)[-1:]
        goes_on = any(
            not (job.state or paths.exit.exists() or paths.root in self.lost)
            for paths, job in newest
        )
        statuses = study.look(self.paths, self.question, self.known)
        for each in statuses:
            for _, job in newest:
                _record(each, job)
        statuses = [self._with_its_job(each, goes_on) for each in statuses]
        self.known = {each.point.key: each for each in statuses}
        return statuses

    def _with_its_job(self, each: PointStatus, allocation_goes_on: bool) -> PointStatus:
        """Return how a point stands, with what is known of its allocation and its job."""
        if allocation_goes_on and each.state is PointState.TO_DO and each.paths:
            each = replace(each, state=PointState.OPEN)  # its turn is to come
        if each.state is PointState.OPEN and each.paths and each.paths.root in self.lost:
            each = replace(each, state=PointState.FAILED, reason=job_status.FORGOTTEN)
        return each

    def _ask(self, statuses: Sequence[PointStatus]) -> None:
        """Ask the scheduler for the open ones, all at once; it writes down those that have ended.

        Later on its silence is borne: jobs go on without it.
        """
        open_ones = [s.paths for s in statuses if s.paths and s.state is PointState.OPEN]
        runs = [(paths, job_record.load(paths)) for paths in open_ones]
        runs += [run for run in _allocations(self.paths) if not run[1].state]
        first = not self.asked
        self.asked = time.monotonic()
        try:
            told = job_status.statuses(runs)
        except SystemFault:
            if first:
                raise
            return
        self.lost |= {paths.root for (paths, _), now in zip(runs, told) if now.state.ended}

    def _submit(self, statuses: Sequence[PointStatus]) -> None:
        """Submit what is to do, as much of it as there is room for."""
        todo = [
            s.point for s in statuses if s.state is PointState.TO_DO or s.point.key in self.retried
        ]
        busy = sum(s.state is PointState.OPEN for s in statuses)
        room = max(0, self.at_once - busy) if self.at_once else len(todo)
        full = self.bound is not None and busy >= self.bound
        if not todo or not room or full or (self.question.together and busy):
            return
        try:
            self._hand_over(todo if self.question.together else todo[:room])
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
        with signals.held():
            if self.question.together:
                told = _allocate(self.paths, drafts, self.drafts.largest())
            else:
                told = _submit_apart(drafts)
            submit.hold_images(drafts)
        self.drafts.listener.tell(told)
        self.retried -= {point.key for point in points}


def _submit_apart(drafts: Sequence[Draft]) -> str:
    """Submit each run by itself; return what was submitted, in words."""
    ids = list(dict.fromkeys(find.number(job.id) for job in job_array.submit_all(drafts)))
    runs = f"{len(drafts)} runs" if len(drafts) > 1 else drafts[0].paths.root.name
    jobs = ", ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
    return f"{runs} submitted: {'job' if len(ids) == 1 else 'jobs'} {jobs}"


def _allocations(paths: StudyPaths) -> list[find.Run]:
    """Return the study's allocations and their jobs, the first one first."""
    matches = [(NAME.fullmatch(each.name), each) for each in paths.root.iterdir()]
    folders = [JobPaths(each) for _, each in sorted((int(m[1]), each) for m, each in matches if m)]
    return [(folder, job_record.load(folder)) for folder in folders]


def _script(plan: Plan, paths: JobPaths, runs: Sequence[JobPaths], cwd: str) -> str:
    """Return the job's script; `plan` is that of the largest run, submitted by itself."""
    # What was not run is asked for again by the study: the job itself never comes back.
    plan = replace(plan, interruption=Interruption())
    parts = ["#!/bin/bash", *SCHEDULERS[plan.launching.scheduler].directives(plan, paths, cwd), ""]
    parts += [f"run={shlex.quote(str(paths.root))}", *exit_trap.opening(plan), "", "runs=("]
    parts += [f"  {shlex.quote(str(each.root))}" for each in runs]
    return "\n".join([*parts, ")", ONE_BY_ONE])


def _allocate(paths: StudyPaths, drafts: Sequence[Draft], largest: Plan) -> str:
    """Write the folders of all runs, and submit the one job for them; all or nothing.

    Returns what was submitted, in words. Raises Refused where there are no allocations to share,
    or with the scheduler's words.
    """
    scheduler = SCHEDULERS[largest.launching.scheduler]
    if not (capabilities(largest.launching.scheduler).queue and scheduler.STEPS):
        raise Refused(
            f"--one-allocation needs Slurm, and this is {largest.launching.scheduler}",
            remedy="leave out --one-allocation",
        )
    root = paths.root / f"allocation-{len(_allocations(paths)) + 1}"
    own = JobPaths(root)
    launch.check(largest)
    with launch.claimed(root, *(draft.paths.root for draft in drafts)):
        launch.write_all(drafts)
        own.log.parent.mkdir()
        text = _script(largest, own, [draft.paths for draft in drafts], os.getcwd())
        own.script.write_text(text, encoding="utf-8")
        id = scheduler.submit(own, own.log)
        Job(id, largest.spec.name, largest.launching.scheduler, str(own.log), time.time()).save(own)
    limit = largest.spec.resources.time
    return f"job {id}: {len(drafts)} runs" + (f" within --time {limit}" if limit else "")


def _record(status: PointStatus, job: Job) -> None:
    """Give a run that has ended in an allocation its job, so that `runner list` tells of it."""
    paths = status.paths
    if paths is None or paths.job.exists() or status.state not in ENDED:
        return
    code = job_record.exit_code(paths)
    state = JobState.COMPLETED if code == 0 else JobState.FAILED
    replace(job, log=str(paths.log), scheduler="allocation", state=state.name).save(paths)
