"""PBS's job arrays: the script of many runs, and the numbers of tasks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.job_record import ArrayPaths, JobPaths
from ..core.model import Plan
from . import array_start, pbs_options

OWN_NUMBERS = False  # PBS knows a range with a step, and no lists


def script(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> list[str]:
    """Return the lines of the script; the runs' own scripts open their logs."""
    option = f"-J {tasks[0]}-{tasks[-1]}" + (f"%{at_once}" if at_once else "")
    directives = pbs_options.directives(plan, JobPaths(array.root), cwd)
    start = array_start.lines("bash -l", array, "PBS_ARRAY_INDEX")
    return ["#!/bin/bash -l", *directives, f"#PBS {option}", *start]


def largest(count: int, highest: int) -> int:
    """Return that all runs may be in one array: a site's limit qsub tells itself."""
    return count


def task_id(whole: str, task: int) -> str:
    """Return the identifier of one task, 123[4].server of 123[].server."""
    return whole.replace("[]", f"[{task}]")


def whole_id(id: str) -> str:
    """Return the identifier of the array that a task is of; another job's own."""
    return re.sub(r"\[\d+\]", "[]", id)
