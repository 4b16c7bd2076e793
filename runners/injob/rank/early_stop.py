"""A trainer that stops early on a signal, its checkpoint saved, is no failure.

Its task ends with 0, since launchers end all ranks when one of them ends otherwise, and rank 0
may still be writing. What happened stands in `stopped.json`, which the job's script turns into
EXIT_STOPPED.
"""

from __future__ import annotations

import os
import signal
import time

from .. import json_files
from .task import Task


def before_training(command: list[str], in_training: bool, code: int, asked: set[int]) -> bool:
    """Whether a recipe was ended, by the signals `asked`, before its first step: nothing is lost.

    From then on recipes answer signals, so one that a signal killed had not come so far; and where
    one rank was killed the others fail to meet it. Of a user's own program nobody knows.
    """
    ends = asked & {signal.SIGTERM, signal.SIGUSR1}
    killed = code in {128 + number for number in ends}
    return command[0] == "-m" and bool(ends) and code != 0 and (killed or not in_training)


def record(task: Task, run_dir: str) -> None:
    """Leave word of it in the run's folder; ranks may do so at the same time."""
    value = {"form": 1, "rank": task.rank, "host": task.host, "time": time.time()}
    json_files.write(os.path.join(run_dir, "stopped.json"), value)
