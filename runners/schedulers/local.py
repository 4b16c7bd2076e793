"""No scheduler: the script runs as a process of this machine."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable
from pathlib import Path

from ..core import shell
from ..core.errors import SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState, Told
from ..core.model import JobSpec, Plan, Refusal

SHEBANG = "#!/bin/bash"


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return that nobody waits for other jobs here.

    What needs nodes of others the plan refuses, the rest has no effect.
    """
    asked = spec.resources.dependency
    if not asked:
        return ()
    run = asked.rpartition(":")[2]
    evidence = f"--dependency is {asked}; `runner wait {run} && ...` waits, and takes over its code"
    remedy = ("leave out --dependency",)
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


def submit(paths: JobPaths | ArrayPaths, name: str, log: Path) -> str:
    """Start the run's script in the background; return its id, `local-PID-STARTTIME`."""
    pid = shell.start(["bash", str(paths.script)], str(log))
    return f"local-{pid}-{_start_time(pid)}"


def states(ids: Iterable[str]) -> dict[str, Told]:
    """Return how the jobs stand that run or wait; of the others only their folders know."""
    found = {id: _told(id) for id in ids}
    return {id: told for id, told in found.items() if told}


def _told(id: str) -> Told | None:
    process, _, task = id.partition("_")
    if not _alive(process):
        return None
    left = _tasks_left(process) if task else [task]
    if left and task not in left:
        return None
    if not left or task != left[0]:
        return Told(JobState.PENDING, "the runs before it")
    elapsed = None if task else _seconds(_pid(process))
    return Told(JobState.RUNNING, nodes=os.uname().nodename, elapsed=elapsed)


def _tasks_left(process: str) -> list[str]:
    """Return the tasks that an array's script has in its arguments, the one that runs first.

    There are none before it has begun; it ends with the last one.
    """
    words = Path(f"/proc/{_pid(process)}/cmdline").read_text().rstrip("\0").split("\0")
    return words[2:]


def _child(process: str) -> int:
    """Return the process of the run that an array's script has started.

    Raises ProcessLookupError in the moment between two runs.
    """
    pid = _pid(process)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise ProcessLookupError
    return int(children[0])


def history(ids: Iterable[str]) -> dict[str, Told]:
    """There is no accounting."""
    return {}


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
        os.killpg(_child(process) if task else _pid(process), signal.SIGTERM)
    except ProcessLookupError:
        raise SystemFault(f"job {id} does not run any more") from None


def _pid(id: str) -> int:
    return int(id.split("-")[1])


def _alive(id: str) -> bool:
    return id.endswith(f"-{_start_time(_pid(id))}")


def _seconds(pid: int) -> float | None:
    """Return for how long a process has run, None if it is gone."""
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    started = _start_time(pid)
    return max(0.0, since_boot - int(started) / os.sysconf("SC_CLK_TCK")) if started else None


def _start_time(pid: int) -> str:
    """Return the process's start in clock ticks since boot (proc(5), field 22), "" if it is gone.

    It tells the process from a later one with the same number.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]
