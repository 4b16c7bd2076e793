"""What is left on disk when a task fails: `failures/rank-N.json`, which `runner` reads."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time

from .ansi import plain
from .task import Task

# The last line of a Python traceback, "pkg.SomeError: text", or a line that a program marks so.
LONGEST = 300  # characters of an error that are repeated; all of it is in the log
ERROR_LINE = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt)\b|runner: |error: )", re.IGNORECASE
)


def recorded(task: Task, run_dir: str) -> bool:
    """Whether this task's failure is on disk already."""
    return os.path.exists(_path(task, run_dir))


def of_others(task: Task, run_dir: str) -> bool:
    """Whether another task's failure is on disk."""
    try:
        names = os.listdir(os.path.join(run_dir, "failures"))
    except OSError:
        return False
    own = os.path.basename(_path(task, run_dir))
    return any(name.endswith(".json") and name != own for name in names)


def speaks_for_node(task: Task, run_dir: str) -> bool:
    """Whether this task is the first of its node to ask: what is wrong there is told once.

    Not a certain one, such as local rank 0: srun may end that before it has begun.
    """
    folder = os.path.join(run_dir, "failures")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"told-{task.host}"), "x", encoding="ascii"):
            return True
    except FileExistsError:
        return False
    except OSError:  # a full disk
        return task.local_rank == 0


def record(task: Task, code: int, message: str, run_dir: str, *, guessed: bool = False) -> None:
    """Say on stdout, and write to the run's folder, how this task failed.

    A `guessed` message is a line that the task wrote some time before it ended without a word.
    """
    print(f"runner: rank {task.name} failed: {message}", flush=True)
    facts = {"rank": task.rank, "host": task.host, "exit_code": code, "message": message}
    path = _path(task, run_dir)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({**facts, "time": time.time(), "guessed": guessed}, file)
        os.replace(path + ".part", path)
    except OSError as error:  # a full disk, which may be why it failed: the exit code still tells
        with contextlib.suppress(OSError):
            os.remove(path + ".part")
        print(f"runner: cannot write {path}: {error.strerror}", flush=True)


def forget(task: Task, run_dir: str) -> None:
    """Take back what this task wrote, if it did: it was no failure."""
    if recorded(task, run_dir):
        os.remove(_path(task, run_dir))


def _path(task: Task, run_dir: str) -> str:
    return os.path.join(run_dir, "failures", f"rank-{task.rank}.json")


def describe(code: int, tail: list[str]) -> str:
    """Return the end of a process in words, from its exit code and the last lines it wrote.

    The signal's name, or the code with the line that looks like an error.
    """
    if code > 128:
        return f"killed by signal {code - 128} ({_signal_name(code - 128)})"
    for line in map(plain, reversed(tail)):
        if ERROR_LINE.match(line):
            return in_words(code, line)
    return in_words(code)


def in_words(code: int, error: str = "") -> str:
    """Return an exit code and the first line of an error in one line."""
    line = error.strip().partition("\n")[0][:LONGEST]
    return f"exit code {code}: {line}" if line else f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
