"""Submits runs: one, or many in job arrays, a folder for each and an array for equal resources.

With Slurm that is a job array, so 500 runs are one call of sbatch; without a queue they run one
after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core import atomic, command_signals
from ..core.errors import Refused, RunnerError, UsageError
from ..core.files import make_folder
from ..core.job_record import ArrayPaths, Job, next_folder
from ..core.remedy import change
from ..schedulers import SCHEDULERS
from ..schedulers.base import Scheduler
from . import run_folder
from .run_folder import Draft

ANYWHERE = ArrayPaths(Path("/"))


@dataclass(frozen=True)
class JobBatch:
    """Runs that are submitted by one call; `array` is None for a single one, a job as any other."""

    drafts: Sequence[Draft]
    array: ArrayPaths | None
    tasks: Sequence[int]
    text: str


def batches(drafts: Sequence[Draft], at_once: int | None = None) -> list[JobBatch]:
    """Return what to submit: one batch for each kind of job, more where it would be too large.

    Raises Refused for more than the scheduler takes, UsageError for one output file for all.
    """
    _check_output(drafts)
    most = _most(drafts, at_once)
    groups = [
        group[start : start + most]
        for group in _alike(drafts)
        for start in range(0, len(group), most)
    ]
    group_limit = max(1, at_once // len(groups)) if at_once else None
    root = together(drafts)
    return [_batch(group, root, place, group_limit) for place, group in enumerate(groups)]


def together(drafts: Sequence[Draft]) -> Path:
    """Return the folder that the runs have in common: runs/NAME-3 of the run runs/NAME-3_0."""
    first = drafts[0]
    match = re.fullmatch(r"(.+-\d+)_\d+", first.paths.root.name)
    spec = first.plan.spec
    return first.paths.root.with_name(match[1]) if match else next_folder(spec.runs_dir, spec.name)


def submit_all(drafts: Sequence[Draft], at_once: int | None = None) -> list[Job]:
    """Write the folders of all runs and submit them; return their jobs, in the same order.

    Drafts whose schedulers' lines agree become one job array, of which each run is a task. When
    anything fails nothing stays: neither jobs nor folders. Signals wait until Slurm has answered
    and the jobs' numbers are written down. Raises Refused and SystemFault.
    """
    for plan in {id(draft.plan): draft.plan for draft in drafts}.values():
        run_folder.check_folders(plan)
    batch_list, root = batches(drafts, at_once), together(drafts)
    several = _several(drafts)
    folders = (*(draft.paths.root for draft in drafts), *([root] if several else []))
    with command_signals.held(), run_folder.claimed(*folders):
        run_folder.write_all(drafts)
        for batch in batch_list:
            _write_array(batch)
        jobs = _hand_over(batch_list, root.name if several else "")
    return [jobs[draft.paths.root] for draft in drafts]


def _several(drafts: Sequence[Draft]) -> bool:
    """A single run is an array only if its number in it was chosen."""
    return len(drafts) > 1 or drafts[0].task is not None


def _check_output(drafts: Sequence[Draft]) -> None:
    given = [item for draft in drafts for item in run_folder.outputs(draft.plan.spec).items()]
    shared = [(name, text) for name, text in given if "%a" not in text or "%j" in text]
    if shared and _several(drafts):
        name, text = shared[0]
        raise UsageError(
            f"--{name} {text} is not the name of one file for each of {len(drafts)} runs",
            "%A stands for the array's number and %a for the task's; the number %j of a task is "
            "known only when it starts",
            [change(leave_out=[name]), change({name: "NAME-%A_%a.log"})],
            id="array-output-pattern",
        )


def _most(drafts: Sequence[Draft], at_once: int | None) -> int:
    """Return how many tasks an array may have; 1 where there are no arrays."""
    scheduler = drafts[0].plan.launching.scheduler
    arrays = SCHEDULERS[scheduler].ARRAYS
    if arrays is None and at_once:
        raise Refused(
            f"{scheduler} has no job arrays: it cannot run {at_once} at a time", id="no-job-arrays"
        )
    if arrays is None or not _several(drafts):
        return 1
    highest = max((draft.task for draft in drafts if draft.task is not None), default=0)
    return arrays.largest(len(drafts), highest)


def _alike(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Group by what an array of such runs asks of the scheduler."""
    groups: dict[tuple[str, ...], list[Draft]] = {}
    for draft in drafts:
        arrays, plan = SCHEDULERS[draft.plan.launching.scheduler].ARRAYS, draft.plan
        lines = arrays.script(plan, ANYWHERE, [0], None, os.getcwd()) if arrays else []
        groups.setdefault((plan.launching.scheduler, *lines), []).append(draft)
    return list(groups.values())


def _batch(group: Sequence[Draft], root: Path, place: int, at_once: int | None) -> JobBatch:
    first = group[0]
    arrays = SCHEDULERS[first.plan.launching.scheduler].ARRAYS
    if arrays is None or not _several(group):
        return JobBatch(group, None, (), first.text)
    array = ArrayPaths(root / str(place + 1) if place else root)
    numbers = [draft.task for draft in group if draft.task is not None]
    tasks = numbers if len(numbers) == len(group) and arrays.OWN_NUMBERS else range(len(group))
    lines = arrays.script(first.plan, array, tasks, at_once, os.getcwd())
    return JobBatch(group, array, tasks, "\n".join([*lines, ""]))


def _write_array(batch: JobBatch) -> None:
    if batch.array is None:
        return
    make_folder(batch.array.tasks)
    for task, draft in zip(batch.tasks, batch.drafts):
        target = os.path.relpath(draft.paths.root, batch.array.tasks)
        (batch.array.tasks / str(task)).symlink_to(target)
    atomic.write_text(batch.array.script, batch.text, private=True)


def _hand_over(batches: Sequence[JobBatch], name: str) -> dict[Path, Job]:
    """Submit all batches, or none; return the jobs by the folders of the runs."""
    done: list[tuple[Scheduler, str]] = []
    jobs: dict[Path, Job] = {}
    try:
        for batch in batches:
            scheduler = SCHEDULERS[batch.drafts[0].plan.launching.scheduler]
            arrays, output = scheduler.ARRAYS, batch.drafts[0].plan.spec.output
            paths = batch.array or batch.drafts[0].paths
            log = Path(output) if output and not batch.array else paths.log
            id = scheduler.submit(paths, log)
            done.append((scheduler, id))
            ids = [id]
            if batch.array and arrays:
                ids = [arrays.task_id(id, task) for task in batch.tasks]
            for draft, job_id in zip(batch.drafts, ids):
                jobs[draft.paths.root] = run_folder.record(draft, job_id, name)
    except BaseException as error:
        left = [id for scheduler, id in done if not _cancelled(scheduler, id)]
        if left and isinstance(error, RunnerError):
            queued = f"still queued, and could not be cancelled: {', '.join(left)}"
            error.change(evidence=f"{error.evidence}\n{queued}")
        raise
    return jobs


def _cancelled(scheduler: Scheduler, id: str) -> bool:
    try:
        scheduler.cancel(id)
    except RunnerError:  # what went wrong before is the cause
        return False
    return True
