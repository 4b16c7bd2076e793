"""What is left on disk when a task fails: `failures/rank-N.json`, which `runner` reads."""

from __future__ import annotations

import json
import os
import re
import signal
import time

from .task import Task

# The last line of a Python traceback, "pkg.SomeError: text", or a line that a program marks so.
LONGEST = 300  # characters of an error that are repeated; all of it is in the log
ERROR_LINE = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt)\b|runner: |error: )", re.IGNORECASE
)


def record(task: Task, code: int, tail: list[str], run_dir: str) -> None:
    """Say on stdout, and write to the run's folder, how this task failed."""
    message = describe(code, tail)
    print(f"runner: rank {task.name} failed: {message}", flush=True)
    facts = {
        "rank": task.rank,
        "host": task.host,
        "time": time.time(),
        "exit_code": code,
        "message": message,
    }
    folder = os.path.join(run_dir, "failures")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"rank-{task.rank}.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file)
    os.replace(path + ".part", path)


def describe(code: int, tail: list[str]) -> str:
    """Return the end in words: the signal's name, or the exit code with the error's own line."""
    if code > 128:
        return f"killed by signal {code - 128} ({_signal_name(code - 128)})"
    for line in reversed(tail):
        if ERROR_LINE.match(line):
            return f"exit code {code}: {line.strip()[:LONGEST]}"
    return f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
