"""Many runs without a scheduler: one script runs them one after the other. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ..core.job_record import ArrayPaths
from ..core.model import Plan
from .array_start import HEADER
from .slurm_array import task_id as task_id
from .slurm_array import whole_id as whole_id

OWN_NUMBERS = True
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
) -> list[str]:
    """Return the lines of the script."""
    text = ONE_AFTER_THE_OTHER.format(numbers=" ".join(str(task) for task in tasks))
    head = ["#!/bin/bash", HEADER, f"tasks={shlex.quote(str(array.tasks))}"]
    return [*head, *text.splitlines()]


def largest(count: int, highest: int) -> int:
    """Return that all runs may be in one array."""
    return count
