"""No scheduler: the script runs as a process of this machine."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable
from pathlib import Path

from .. import shell
from ..errors import SystemFault
from ..jobs import JobPaths, JobState
from ..model import JobSpec, Plan, Refusal

SHEBANG = "#!/bin/bash"


def refusals(spec: JobSpec) -> tuple[Refusal, ...]:
    """Return nothing: what needs nodes of others the plan refuses, the rest has no effect here."""
    return ()


def directives(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return nothing: there is nobody to tell."""
    return []


def opening(plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
    """Return the script's first steps."""
    return [f"cd {shlex.quote(cwd)} || exit"]


def by_hand(paths: JobPaths) -> str:
    """Return nothing: the script is a program like others."""
    return ""


def submit(paths: JobPaths, name: str, log: Path) -> str:
    """Start the run's script in the background; return its id, `local-PID-STARTTIME`."""
    pid = shell.start(["bash", str(paths.script)], str(log))
    return f"local-{pid}-{_start_time(pid)}"


def states(ids: Iterable[str]) -> dict[str, tuple[JobState, str]]:
    """Return RUNNING for the jobs that still run; of the others only their folders know."""
    return {id: (JobState.RUNNING, "") for id in ids if _alive(id)}


def history(id: str) -> tuple[JobState, str] | None:
    """There is no accounting."""
    return None


def cancel(id: str) -> None:
    """End a job with SIGTERM to its whole session; raise SystemFault when it has ended."""
    if not _alive(id):
        raise SystemFault(f"job {id} does not run any more")
    os.killpg(_pid(id), signal.SIGTERM)


def _pid(id: str) -> int:
    return int(id.split("-")[1])


def _alive(id: str) -> bool:
    return id.endswith(f"-{_start_time(_pid(id))}")


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
