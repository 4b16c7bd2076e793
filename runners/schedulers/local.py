"""No scheduler: the script runs as a process of this machine."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable
from pathlib import Path

from ..core import shell
from ..core.errors import SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState
from ..core.model import JobSpec, Plan, Refusal
from ..core.remedy import change
from . import local_array, local_steps
from .local_process import alive, pid_of, seconds, start_time
from .protocol import Capabilities, SchedulerStatus

CAPABILITIES = Capabilities("this machine", "", ("local", "horovodrun"), one_machine=True)
SHEBANG = "#!/bin/bash"
ARRAYS, STEPS, INTERACTIVE = local_array, local_steps, None


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return that nobody waits for other jobs here.

    What needs nodes of others the plan refuses, the rest has no effect.
    """
    asked = spec.resources.dependency
    if not asked:
        return ()
    run = asked.rpartition(":")[2]
    evidence = f"--dependency is {asked}; `runner wait {run} && ...` waits, and takes over its code"
    remedy = (change(leave_out=["dependency"]),)
    return (Refusal("without a scheduler nothing waits for another job", evidence, remedy),)


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return nothing: there is nobody to tell."""
    return []


def opening(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the script's first steps."""
    return [f"cd {shlex.quote(cwd)} || exit"]


def by_hand(paths: JobPaths) -> str:
    """Return nothing: the script is a program like others."""
    return ""


def submit(paths: JobPaths | ArrayPaths, log: Path) -> str:
    """Start the run's script in the background; return its id, `local-PID-STARTTIME`."""
    pid = shell.start(["bash", str(paths.script)], str(log))
    return f"local-{pid}-{start_time(pid)}"


def states(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """Return how the jobs stand that run or wait; of the others only their folders know."""
    found = {id: _told(id) for id in ids}
    return {id: told for id, told in found.items() if told}


def _told(id: str) -> SchedulerStatus | None:
    process, _, task = id.partition("_")
    if not alive(process):
        return None
    left = _tasks_left(process) if task else [task]
    if left and task not in left:
        return None
    if not left or task != left[0]:
        return SchedulerStatus(JobState.PENDING, "the runs before it")
    elapsed = None if task else seconds(pid_of(process))
    return SchedulerStatus(JobState.RUNNING, nodes=os.uname().nodename, elapsed=elapsed)


def _tasks_left(process: str) -> list[str]:
    """Return the tasks that an array's script has in its arguments, the one that runs first.

    There are none before it has begun; it ends with the last one.
    """
    words = Path(f"/proc/{pid_of(process)}/cmdline").read_text().rstrip("\0").split("\0")
    return words[2:]


def _child(process: str) -> int:
    """Return the process of the run that an array's script has started.

    Raises ProcessLookupError in the moment between two runs.
    """
    pid = pid_of(process)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise ProcessLookupError
    return int(children[0])


def history(ids: Iterable[str]) -> dict[str, SchedulerStatus]:
    """There is no accounting."""
    return {}


def is_id(text: str) -> bool:
    """Whatever it is: nothing waits here (see refusals)."""
    return True


def ahead(id: str) -> int | None:
    """There is no queue."""
    return None


def cancel(id: str) -> None:
    """End a job with SIGTERM to its whole session; raise SystemFault when it has ended.

    A task of an array that waits is left out when its turn comes, since its record says so.
    """
    process, _, task = id.partition("_")
    told = _told(id)
    if told and told.state == JobState.PENDING:
        return
    try:
        if told is None:
            raise ProcessLookupError
        os.killpg(_child(process) if task else pid_of(process), signal.SIGTERM)
    except ProcessLookupError:
        raise SystemFault(f"job {id} does not run any more") from None
