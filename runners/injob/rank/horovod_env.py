"""The HOROVOD_* variables of a task. Whatever the user has set stays."""

from __future__ import annotations

import os

from .task import Task

TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
SECONDS_FOR_ALL_RANKS_TO_MEET = 60


def for_mpi() -> dict[str, str]:
    """Variables that make a build with several controllers use MPI for control and CPU data."""
    return {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}


def for_gloo(task: Task) -> dict[str, str]:
    """Variables that place `task` in a Gloo world; address, port and interface come later.

    Both CONTROLLER and CPU_OPERATIONS are needed: one alone aborts or crashes in a build that
    also has MPI (0.28.1). Horovod's own time-out is 30 s whatever the number of ranks.
    """
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_RANK": str(task.rank),
        "HOROVOD_SIZE": str(task.size),
        "HOROVOD_LOCAL_RANK": str(task.local_rank),
        "HOROVOD_LOCAL_SIZE": str(task.local_size),
        "HOROVOD_CROSS_RANK": str(task.cross_rank),
        "HOROVOD_CROSS_SIZE": str(task.cross_size),
        "HOROVOD_HOSTNAME": task.host,
        TIMEOUT: str(meeting_seconds(task.size)),
    }


def meeting_seconds(size: int) -> int:
    """Seconds that the ranks wait for each other at start: the user's, or growing with `size`."""
    asked = os.environ.get(TIMEOUT, "")
    return int(asked) if asked.isdigit() else SECONDS_FOR_ALL_RANKS_TO_MEET + size
