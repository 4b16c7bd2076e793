"""The shim that starts ranks in a container, around a trainer in the run's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runners import injob

ALONE = {"RUNNER_TASK_RANK": "0", "RUNNER_TASK_COUNT": "1", "RUNNER_TASK_JOB": "job"}
TWO = ("--tasks", "2", "--controller", "none", "--no-gate")
LOCAL = ("--launcher", "local", "--controller", "mpi")


def command(folder: Path, *options: str, trainer: tuple[str, ...] = ()) -> list[str]:
    """Return its command line; the trainer is `train.py` of the folder where none is named."""
    words = trainer or (str(folder / "train.py"),)
    return [sys.executable, injob.HERE, "rank", *options, "--run-dir", str(folder), "--", *words]


def run(
    folder: Path, *options: str, trainer: tuple[str, ...] = (), **variables: str
) -> tuple[int, str]:
    """Run it to its end; return its exit code, and what it and its trainer printed."""
    done = subprocess.run(
        command(folder, *options, trainer=trainer),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    return done.returncode, done.stdout
