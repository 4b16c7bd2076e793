"""What is left on disk when a task fails: `failures/rank-N.json`, which `runner` reads."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Sequence

from .. import failure_kinds as kinds
from .. import json_files, log_lines
from .ansi import plain
from .problem import Problem
from .task import Task

LONGEST = 300  # characters of an error in a sentence; the record has KEPT, and the log all of it
KEPT = 4000
CAUSE = "cause"  # a file beside the records: one of them is no follower's
TRACEBACK_LINES = 400
SECONDS_TO_SPEAK = 5.0  # for one that was killed at it
# The last line of a Python traceback, "pkg.SomeError: text", or a line that a program marks so.
ERROR_LINE = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt)\b|runner: |error: )", re.IGNORECASE
)
MARKED = ("error: ", "runner: ")  # lines that a program marks as the reason of its end


def recorded(task: Task, run_dir: str) -> bool:
    return os.path.exists(_path(task, run_dir))


def of_others(task: Task, run_dir: str) -> bool:
    try:
        names = os.listdir(_folder(run_dir))
    except OSError:
        return False
    own = os.path.basename(_path(task, run_dir))
    return any(name.endswith(".json") and name != own for name in names)


def cause_known(run_dir: str) -> bool:
    """Whether a task has failed that did not merely follow another."""
    return os.path.exists(os.path.join(_folder(run_dir), CAUSE))


def speaks_for_node(task: Task, run_dir: str) -> bool:
    """Whether this task is the first of its node to ask: what is wrong there is said once.

    Not a certain one, such as local rank 0: srun may end that before it has begun. The claim is a
    link to the record that follows the words: it leads somewhere as soon as they are out.
    """
    try:
        os.makedirs(_folder(run_dir), 0o755, exist_ok=True)
        os.symlink(os.path.basename(_path(task, run_dir)), _claim(task, run_dir))
        return True
    except FileExistsError:
        return False
    except OSError:  # a full disk
        return task.local_rank == 0


def _let_speak(task: Task, run_dir: str) -> None:
    """Wait for the one that speaks for the node: a failure on record makes others be killed."""
    claim, until = _claim(task, run_dir), time.monotonic() + SECONDS_TO_SPEAK
    with contextlib.suppress(OSError):  # nobody speaks
        if os.readlink(claim) == os.path.basename(_path(task, run_dir)):
            return
        while not os.path.exists(claim) and time.monotonic() < until:
            time.sleep(0.02)


def record(task: Task, code: int, problem: Problem, run_dir: str) -> bool:
    """Say on stdout, and write to the run's folder, how this task failed; False if it cannot."""
    _let_speak(task, run_dir)
    print(log_lines.FAILED.format(rank=task.name) + problem.text, flush=True)
    value = {"version": kinds.VERSION, "kind": problem.kind, "rank": task.rank, "size": task.size}
    value.update(host=task.host, exit_code=code, message=problem.text, time=time.time())
    path = _path(task, run_dir)
    try:
        os.makedirs(_folder(run_dir), 0o755, exist_ok=True)
        json_files.write(path, {**value, **problem.fields})
        if not kinds.follows(problem.kind, problem.fields):
            open(os.path.join(_folder(run_dir), CAUSE), "w").close()
    except OSError as error:  # a full disk, which may be why it failed: the exit code still tells
        print(f"runner: cannot write {path}: {error.strerror}", flush=True)
        return False
    return True


def forget(task: Task, run_dir: str) -> None:
    """Take back what this task wrote, if it did: it was no failure."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(_path(task, run_dir))


def _folder(run_dir: str) -> str:
    return os.path.join(run_dir, "failures")


def _path(task: Task, run_dir: str) -> str:
    return os.path.join(_folder(run_dir), f"rank-{task.rank}.json")


def _claim(task: Task, run_dir: str) -> str:
    return os.path.join(_folder(run_dir), f"said-{task.host}")


def of_process(code: int, tail: Sequence[str], asked: Collection[int] = ()) -> Problem:
    """Return how a process ended, from its exit code and the last lines that it wrote.

    `asked` are the signals that somebody had sent to it.
    """
    if code > 128:
        return _of_signal(code - 128, asked)
    lines = [plain(line) for line in tail]
    error = next((line for line in reversed(lines) if ERROR_LINE.match(line)), "")
    return of_exit(code, error, guessed=bool(error) and not error.startswith(MARKED))


def _of_signal(number: int, asked: Collection[int]) -> Problem:
    names = {one.value: one.name for one in signal.Signals}
    text = f"killed by signal {number} ({names.get(number, 'unknown')})"
    if number == signal.SIGUSR1 and number in asked:
        text += ", which asks to save and stop, and the trainer does not handle it"
    fields = {"signal": number, "asked": sorted(int(one) for one in asked)}
    return Problem(kinds.SIGNAL, text, fields)


def of_exit(code: int, error: str = "", *, guessed: bool = False) -> Problem:
    """Return an end by an exit code, and its reason, as far as there is one."""
    error = _first_line(error)
    if kinds.of_lost_peer(error):
        return Problem(kinds.PEER_LOST, _sentence(code, error), {"error": error, "traceback": []})
    return Problem(kinds.EXIT, _sentence(code, error), {"error": error, "guessed": guessed})


def of_exception(code: int, error: Exception, lines: Sequence[str]) -> Problem:
    """Return an end by an exception; `lines` are its traceback."""
    words = _first_line(f"{type(error).__name__}: {error}")
    # TensorFlow says on a later line who was lost.
    kind = kinds.PEER_LOST if kinds.of_lost_peer(str(error)) else kinds.EXCEPTION
    fields = {"error": words, "traceback": list(lines[-TRACEBACK_LINES:])}
    return Problem(kind, _sentence(code, words), fields)


def _first_line(text: str) -> str:
    return shortened(text.strip().partition("\n")[0], KEPT)


def _sentence(code: int, error: str) -> str:
    return f"exit code {code}: {shortened(error, LONGEST)}" if error else f"exit code {code}"


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters of a text, cut between words, with ` ...` if cut."""
    if len(text) <= width:
        return text
    kept = text[: width - 3]
    return (kept.rpartition(" ")[0] or kept) + " ..."
