"""Writes the records of failed ranks, `failures/rank-N.json`, which `runner explain` reads.

It also chooses the task that says what is wrong on a node, so that it is said once. That is the
first task to ask: srun may end a fixed one, such as local rank 0, before it has begun. The task
claims this with a link to its record, which is written after the words are out.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time

from ...contract import failure_kinds as kinds
from ...contract import log_text, run_files
from .. import records
from ..problems import Problem
from ..task import Task

CAUSE = "cause"  # a file beside the records: a rank has failed that followed no other
SECONDS_TO_SPEAK = 5.0  # the task that speaks may be killed


def speaks(task: Task, run_dir: str) -> bool:
    """Whether this task speaks for its node."""
    record, link = _record_and_link(task, run_dir)
    try:
        os.makedirs(os.path.dirname(link), 0o755, exist_ok=True)
        os.symlink(record, link)
        return True
    except FileExistsError:
        return False
    except OSError:  # a full disk
        return task.local_rank == 0


def _wait_for_speaker(task: Task, run_dir: str) -> None:
    """Wait until another task that speaks for the node has spoken."""
    record, link = _record_and_link(task, run_dir)
    until = time.monotonic() + SECONDS_TO_SPEAK
    with contextlib.suppress(OSError):  # nobody speaks
        if os.readlink(link) == record:
            return
        while not os.path.exists(link) and time.monotonic() < until:
            time.sleep(0.02)


def _record_and_link(task: Task, run_dir: str) -> tuple[str, str]:
    folder, record = os.path.split(run_files.failure_path(run_dir, task.rank))
    return record, os.path.join(folder, f"said-{task.host}")


def recorded(task: Task, run_dir: str) -> bool:
    return os.path.exists(run_files.failure_path(run_dir, task.rank))


def of_others(task: Task, run_dir: str) -> bool:
    own = run_files.failure_path(run_dir, task.rank)
    every = glob.iglob(run_files.failure_path(glob.escape(run_dir), "*"))
    return any(path != own for path in every)


def cause_known(run_dir: str) -> bool:
    """Whether a task has failed that did not merely follow another."""
    return os.path.exists(os.path.join(run_dir, run_files.FAILURES, CAUSE))


def record(task: Task, code: int, problem: Problem, run_dir: str) -> bool:
    """Print and record how this task failed; return whether the record could be written."""
    _wait_for_speaker(task, run_dir)  # a failure on record makes others be killed
    print(log_text.FAILED.format(rank=task.name) + problem.text, flush=True)
    value = {"version": kinds.VERSION, "kind": problem.kind, "rank": task.rank, "size": task.size}
    value.update(host=task.host, exit_code=code, message=problem.text, time=time.time())
    path = run_files.failure_path(run_dir, task.rank)
    try:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        records.write_json(path, {**value, **problem.fields})
        if not kinds.follows(problem.kind, problem.fields):
            open(os.path.join(run_dir, run_files.FAILURES, CAUSE), "w").close()
    except OSError as error:  # a full disk, which may be why it failed: the exit code still tells
        print(f"runner: cannot write {path}: {error.strerror}", flush=True)
        return False
    return True


def forget(task: Task, run_dir: str) -> None:
    """Remove this task's record, if there is one: it was no failure."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(run_files.failure_path(run_dir, task.rank))
