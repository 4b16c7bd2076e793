"""Slurm's job arrays: the script of many runs, the limits, the numbers of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core import shell
from ..core.errors import Refused, SystemFault
from ..core.job_record import ArrayPaths, JobPaths
from ..core.model import Plan
from ..core.remedy import change
from . import array_start, slurm_facts, slurm_options

OWN_NUMBERS = True


def script(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> list[str]:
    """Return the lines of the script; of its tasks `at_once` may run at a time."""
    option = f"--array={indices(tasks)}" + (f"%{at_once}" if at_once else "")
    log = plan.spec.output or _log(array)
    logging = replace(plan, spec=replace(plan.spec, output=log or "/dev/null"))
    directives = slurm_options.directives(logging, JobPaths(array.root), cwd)
    start = array_start.lines("bash", array, "SLURM_ARRAY_TASK_ID", redirect=not log)
    return ["#!/bin/bash", *directives, f"#SBATCH {option}", *start]


def _log(array: ArrayPaths) -> str:
    """Return a pattern by which Slurm writes the log, with its own words on the job's end.

    It leads through the link of a task; it is "" where no pattern can (see log_option).
    """
    folder = str(array.tasks)
    return "" if "\\" in folder else folder.replace("%", "%%") + "/%a/logs/job.log"


def largest(count: int, highest: int) -> int:
    """Return MaxArraySize; raise Refused for more runs, or a higher number, than Slurm takes."""
    size, jobs = limits()
    if count >= jobs:
        raise Refused(
            f"{count} runs are more than Slurm takes here",
            f"scontrol show config: MaxJobCount = {jobs}, for all users together",
        )
    if highest >= size:
        raise Refused(
            f"Slurm takes no task with the number {highest} here",
            f"scontrol show config: MaxArraySize = {size}, one more than the highest number",
            change(array=f"0-{size - 1}") if size > 1 else "--sweep, which needs no arrays",
        )
    return max(1, size)


def limits() -> tuple[int, int]:
    """Return MaxArraySize, one more than the highest number of a task, and MaxJobCount.

    Raises SystemFault when the controller does not answer.
    """
    answer = shell.run(slurm_facts.CONFIG)
    if answer.code != 0:
        raise SystemFault("Slurm's controller does not answer", answer.err.strip(), "scontrol ping")
    said = slurm_facts.parse_config(answer.out)
    return int(said["MaxArraySize"]), int(said["MaxJobCount"])


def indices(tasks: Sequence[int]) -> str:
    """Return numbers in sbatch's form, such as 0-3,7,10-11; they are in order."""
    spans: list[list[int]] = []
    for task in tasks:
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def task_id(whole: str, task: int) -> str:
    """Return the identifier of one task, 123_4 of 123."""
    return f"{whole}_{task}"


def whole_id(id: str) -> str:
    """Return the identifier of the array that a task is of; another job's own."""
    return id.partition("_")[0]
