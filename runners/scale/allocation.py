"""All runs of a study in one allocation, one after the other, each on as many nodes as it needs.

Small sizes leave nodes idle, but all sizes are measured on the same nodes, and wait only once.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

from ..core import job_record
from ..core.errors import Refused
from ..core.job_record import Job, JobPaths, JobState
from ..core.model import Plan
from ..schedulers import SCHEDULERS, capabilities
from ..script import exit_trap
from ..submit import launch
from ..submit.launch import Draft
from .study import PointState, PointStatus, StudyPaths

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


def all_of(paths: StudyPaths) -> list[JobPaths]:
    """Return the study's allocations, the first one first."""
    found = [(NAME.fullmatch(each.name), each) for each in paths.root.iterdir()]
    return [JobPaths(each) for _, each in sorted((int(m[1]), each) for m, each in found if m)]


def script(plan: Plan, paths: JobPaths, runs: Sequence[JobPaths], cwd: str) -> str:
    """Return the job's script; `plan` is that of the largest run, submitted by itself."""
    # What was not run is asked for again by the study: the job itself never comes back.
    plan = replace(plan, restarts=0, warning=None)
    parts = ["#!/bin/bash", *SCHEDULERS[plan.scheduler].directives(plan, paths, cwd), ""]
    parts += [f"run={shlex.quote(str(paths.root))}", *exit_trap.opening(plan), "", "runs=("]
    parts += [f"  {shlex.quote(str(each.root))}" for each in runs]
    return "\n".join([*parts, ")", ONE_BY_ONE])


def submit(paths: StudyPaths, drafts: Sequence[Draft], largest: Plan) -> Job:
    """Write the folders of all runs, and submit the one job for them; all or nothing.

    Raises Refused where there are no allocations to share, or with the scheduler's words.
    """
    scheduler = SCHEDULERS[largest.scheduler]
    if not (capabilities(largest.scheduler).queue and scheduler.STEPS):
        raise Refused(
            f"--one-allocation needs Slurm, and this is {largest.scheduler}",
            remedy="leave out --one-allocation",
        )
    root = paths.root / f"allocation-{len(all_of(paths)) + 1}"
    own = JobPaths(root)
    launch.check(largest)
    with launch.claimed(root, *(draft.paths.root for draft in drafts)):
        launch.write_all(drafts)
        own.log.parent.mkdir()
        text = script(largest, own, [draft.paths for draft in drafts], os.getcwd())
        own.script.write_text(text, encoding="utf-8")
        id = scheduler.submit(own, own.log)
        job = Job(id, largest.spec.name, largest.scheduler, str(own.log), time.time())
        job.save(own)
    return job


def record(status: PointStatus, job: Job) -> None:
    """Give a run that has ended in an allocation its job, so that `runner list` tells of it."""
    paths = status.paths
    if (
        paths is None
        or paths.job.exists()
        or status.state not in (PointState.MEASURED, PointState.FAILED)
    ):
        return
    code = job_record.exit_code(paths)
    state = JobState.COMPLETED if code == 0 else JobState.FAILED
    replace(job, log=str(paths.log), scheduler="allocation", state=state.name).save(paths)
