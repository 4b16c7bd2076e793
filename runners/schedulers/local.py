"""No scheduler: the script runs as a process of this machine, `local-PID-STARTTIME`."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..core import shell
from ..core.diagnosis import Diagnosis, refusal
from ..core.errors import Refused, SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState, Status
from ..core.model import JobSpec, Resources
from ..core.plan import Plan
from ..core.remedy import change
from .base import HEADER, Arrays, JobLocation, Scheduler, Steps

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


class LocalArrays(Arrays):
    """One script runs all runs, one after the other."""

    def script(
        self, plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
    ) -> list[str]:
        text = ONE_AFTER_THE_OTHER.format(numbers=" ".join(str(task) for task in tasks))
        head = ["#!/bin/bash", HEADER, f"tasks={shlex.quote(str(array.tasks))}"]
        return [*head, *text.splitlines()]


class LocalSteps(Steps):
    """A command beside the ranks simply runs here."""

    def location(self, id: str) -> JobLocation:
        if not alive(id.partition("_")[0]):
            why = "it has ended, or is on another machine"
            raise Refused(
                f"job {id} does not run", why, f"runner status {id}", id="job-not-running"
            )
        return JobLocation("", (os.uname().nodename,))

    def names(self, nodes: str) -> tuple[str, ...]:
        return tuple(nodes.split(","))

    def argv(
        self,
        location: JobLocation,
        command: Sequence[str],
        pty: bool = False,
        labelled: bool = False,
    ) -> list[str]:
        return list(command)


class Local(Scheduler):
    ARRAYS = LocalArrays()
    STEPS: Steps = LocalSteps()

    def refusals(self, spec: JobSpec, resources: Resources) -> tuple[Diagnosis, ...]:
        """Nobody waits for other jobs here.

        What needs nodes of others the plan refuses, the rest has no effect.
        """
        after = resources.dependency
        if not after:
            return ()
        what = "without a scheduler nothing waits for another job"
        instead = f"`runner wait {after.rpartition(':')[2]} && ...` waits, and takes over its code"
        remedy = change(leave_out=["dependency"])
        evidence = f"--dependency is {after}; {instead}"
        return (refusal("dependency-without-queue", what, evidence, remedy),)

    def opening(self, plan: Plan, paths: JobPaths, cwd: str, at_terminal: bool) -> list[str]:
        return [f"cd {shlex.quote(cwd)} || exit"]

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        pid = shell.start(["bash", str(paths.script)], str(log))
        return f"local-{pid}-{start_time(pid)}"

    def states(self, ids: Iterable[str]) -> dict[str, Status]:
        statuses = {id: _status(id) for id in ids}
        return {id: status for id, status in statuses.items() if status}

    def cancel(self, id: str) -> None:
        """End a job with SIGTERM to its whole session; raise SystemFault when it has ended.

        A task of an array that waits is left out when its turn comes, since its record says so.
        """
        process, _, task = id.partition("_")
        status = _status(id)
        if status and status.state == JobState.PENDING:
            return
        try:
            if status is None:
                raise ProcessLookupError
            os.killpg(_child(process) if task else pid_of(process), signal.SIGTERM)
        except ProcessLookupError:
            raise SystemFault(f"job {id} does not run any more", id="job-gone") from None


def _status(id: str) -> Status | None:
    process, _, task = id.partition("_")
    if not alive(process):
        return None
    pid = pid_of(process)
    left = [task]
    if task:  # the arguments of an array's script, none before it has begun
        left = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")[2:]
    if left and task not in left:
        return None
    if not left or task != left[0]:
        return Status(JobState.PENDING, "the runs before it")
    elapsed = None if task else _seconds(pid)
    return Status(JobState.RUNNING, nodes=os.uname().nodename, elapsed=elapsed)


def _child(process: str) -> int:
    """Return the process of the run that an array's script has started.

    Raises ProcessLookupError in the moment between two runs.
    """
    pid = pid_of(process)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise ProcessLookupError
    return int(children[0])


def pid_of(id: str) -> int:
    return int(id.split("-")[1])


def alive(id: str) -> bool:
    """Whether a job's process is there, and not a later one with its number."""
    return id.endswith(f"-{start_time(pid_of(id))}")


def _seconds(pid: int) -> float | None:
    """Return for how long a process has run, None if it is gone."""
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    started = start_time(pid)
    return max(0.0, since_boot - int(started) / os.sysconf("SC_CLK_TCK")) if started else None


def start_time(pid: int) -> str:
    """Return the process's start in clock ticks since boot (proc(5), field 22), "" if it is gone.

    It tells the process from a later one with the same number.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]


SCHEDULER = Local()
