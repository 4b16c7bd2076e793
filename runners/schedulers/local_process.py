"""Jobs that are processes of this machine: `local-PID-STARTTIME`."""

from __future__ import annotations

import os
from pathlib import Path


def pid_of(id: str) -> int:
    """Return the process of a job's identifier."""
    return int(id.split("-")[1])


def alive(id: str) -> bool:
    """Whether a job's process is there, and not a later one with its number."""
    return id.endswith(f"-{start_time(pid_of(id))}")


def seconds(pid: int) -> float | None:
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
