"""Many runs in one job: the script that starts the run of a task, and the numbers of tasks. Pure.

A task's script is that of its run, which also runs by hand; the array's own only finds it, by a
link that has the task's number. The log is found the same way, by the scheduler itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Callable

from .. import __version__
from ..core.job_record import ArrayPaths, JobPaths
from ..core.model import Plan
from . import pbs, slurm

Script = Callable[[Plan, ArrayPaths, Sequence[int], "int | None", str], "list[str]"]
HEADER = f"# Written by runner {__version__}. Each task is a run; its folder is a link in tasks/."
ONE_AFTER_THE_OTHER = """\
# One run after the other. The arguments are the tasks that are left, the one that runs first.
[ $# -gt 0 ] || exec bash "$0" {numbers}
set -m  # a run is a process group of its own, and can be ended alone
run=
trap '[ -z "$run" ] || kill -TERM -- "-$run"; wait; exit 143' TERM
if ! grep -qs '"state": "CANCELLED"' "$tasks/$1/job.json"; then
  bash "$tasks/$1/job.sbatch" >> "$tasks/$1/logs/job.log" 2>&1 &
  run=$!
  wait "$run"
  run=
fi
shift
[ $# = 0 ] || exec bash "$0" "$@\""""


def script(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> str:
    """Return the script that is submitted for all tasks, of which `at_once` may run at a time."""
    lines = SCRIPTS[plan.scheduler](plan, array, tasks, at_once, cwd)
    return "\n".join([*lines, ""])


def _slurm(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> list[str]:
    option = f"--array={indices(tasks)}" + (f"%{at_once}" if at_once else "")
    directives = slurm.directives(_logging_by_task(plan, array), JobPaths(array.root), cwd)
    start = _start("bash", array, "SLURM_ARRAY_TASK_ID")
    return [slurm.SHEBANG, *directives, f"#SBATCH {option}", *start]


def _logging_by_task(plan: Plan, array: ArrayPaths) -> Plan:
    """Slurm writes the log, with its own words on the job's end, through the link."""
    log = str(array.tasks).replace("%", "%%") + "/%a/logs/job.log"
    return replace(plan, spec=replace(plan.spec, output=plan.spec.output or log))


def _pbs(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> list[str]:
    """PBS knows a range with a step, and no lists; the runs' own scripts open their logs."""
    option = f"-J {tasks[0]}-{tasks[-1]}" + (f"%{at_once}" if at_once else "")
    directives = pbs.directives(plan, JobPaths(array.root), cwd)
    start = _start("bash -l", array, "PBS_ARRAY_INDEX")
    return [pbs.SHEBANG, *directives, f"#PBS {option}", *start]


def _start(shell: str, array: ArrayPaths, variable: str) -> list[str]:
    folder = shlex.quote(str(array.tasks))
    return ["", HEADER, f'exec {shell} {folder}/"${variable}"/job.sbatch']


def _local(
    plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
) -> list[str]:
    numbers = " ".join(str(task) for task in tasks)
    text = ONE_AFTER_THE_OTHER.format(numbers=numbers)
    head = ["#!/bin/bash", HEADER, f"tasks={shlex.quote(str(array.tasks))}"]
    return [*head, *text.splitlines()]


SCRIPTS: Mapping[str, Script] = {
    "slurm": _slurm,
    "pbs": _pbs,
    "local": _local,
    "allocation": _local,
}


def indices(tasks: Sequence[int]) -> str:
    """Return numbers in sbatch's form, such as 0-3,7,10-11; they are in order."""
    spans: list[list[int]] = []
    for task in tasks:
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def task_id(scheduler: str, whole: str, task: int) -> str:
    """Return the identifier of one task: 123_4 of 123; PBS's is 123[4].server of 123[].server."""
    return whole.replace("[]", f"[{task}]") if scheduler == "pbs" else f"{whole}_{task}"


def whole_id(scheduler: str, id: str) -> str:
    """Return the identifier of the array that a task is of; another job's own."""
    return re.sub(r"\[\d+\]", "[]", id) if scheduler == "pbs" else id.partition("_")[0]
