"""Which task of a node says what is wrong there, so that it is said once: the first to ask.

Not a certain one, such as local rank 0: srun may end that before it has begun. The claim is a link
to the record that follows the words: it leads somewhere as soon as they are out.
"""

from __future__ import annotations

import contextlib
import os
import time

from ..run_files import FAILURES, failure_path
from .task import Task

SECONDS_TO_SPEAK = 5.0  # for one that was killed at it


def claim(task: Task, run_dir: str) -> bool:
    """Whether this task is the one that speaks for its node."""
    try:
        os.makedirs(os.path.join(run_dir, FAILURES), 0o755, exist_ok=True)
        os.symlink(_record(task, run_dir), _link(task, run_dir))
        return True
    except FileExistsError:
        return False
    except OSError:  # a full disk
        return task.local_rank == 0


def wait(task: Task, run_dir: str) -> None:
    """Wait until another task that speaks for the node has spoken."""
    link, until = _link(task, run_dir), time.monotonic() + SECONDS_TO_SPEAK
    with contextlib.suppress(OSError):  # nobody speaks
        if os.readlink(link) == _record(task, run_dir):
            return
        while not os.path.exists(link) and time.monotonic() < until:
            time.sleep(0.02)


def _record(task: Task, run_dir: str) -> str:
    return os.path.basename(failure_path(run_dir, task.rank))


def _link(task: Task, run_dir: str) -> str:
    return os.path.join(run_dir, FAILURES, f"said-{task.host}")
