"""How a rank ended: why it failed, as a value and as `failures/rank-N.json`; that it stopped early.

A trainer that stops early on a signal, its checkpoint saved, is no failure. Its task ends with 0,
since launchers end all ranks when one of them ends otherwise, and rank 0 may still be writing. The
job's script turns `stopped.json` into EXIT_STOPPED.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import failure_kinds as kinds
from .. import run_files
from ..run_files import plain
from .task import Task

LONGEST = 300  # characters of an error in a sentence; the record has KEPT, and the log all of it
KEPT = 4000
CAUSE = "cause"  # a file beside the records: one of them is no follower's
TRACEBACK_LINES = 400
SECONDS_TO_SPEAK = 5.0  # for one that was killed at it
# The last line of a Python traceback, "pkg.SomeError: text", or a line that a program marks so; not
# the metric "val_error: 0.5".
ERROR_LINE = re.compile(
    rf"^(?:{run_files.OF_RANK})?"
    rf"(?P<error>(?!(?-i:\S+error): -?[\d.e-]+$)(?:{run_files.OF_A_TYPE}|runner: |error: ).*)",
    re.IGNORECASE,
)
MARKED = ("error: ", "runner: ")  # lines that a program marks as the reason of its end


@dataclass(frozen=True)
class Problem:
    """Why a rank failed: a kind of KINDS, a sentence for people, and the fields of its kind."""

    kind: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "fields": dict(self.fields)}


class RendezvousError(Exception):
    """The ranks could not meet; `problem` says which of them is missing, and where."""

    def __init__(self, kind: str, text: str, **fields: Any) -> None:
        super().__init__(text)
        self.problem = Problem(kind, text, fields)


def problem_of(error: RendezvousError | OSError) -> Problem:
    """Return the problem that an error at the rendezvous, or one of the system's, is."""
    if isinstance(error, RendezvousError):
        return error.problem
    return Problem(kinds.RENDEZVOUS, str(error))


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
    print(run_files.FAILED.format(rank=task.name) + problem.text, flush=True)
    value = {"version": kinds.VERSION, "kind": problem.kind, "rank": task.rank, "size": task.size}
    value.update(host=task.host, exit_code=code, message=problem.text, time=time.time())
    path = _path(task, run_dir)
    try:
        os.makedirs(_folder(run_dir), 0o755, exist_ok=True)
        run_files.write_json(path, {**value, **problem.fields})
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
    errors = filter(None, map(ERROR_LINE.match, reversed(lines)))
    error = next((one["error"] for one in errors), "")
    return of_exit(code, error, guessed=bool(error) and not error.startswith(MARKED))


def _of_signal(number: int, asked: Collection[int]) -> Problem:
    names = {one.value: one.name for one in signal.Signals}
    text = f"killed by signal {number} ({names.get(number, 'unknown')})"
    if number == signal.SIGUSR1 and number in asked:
        text += ", the request to save and stop, which the trainer does not handle"
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
    words = _first_line(f"{type(error).__name__}: {str(error).strip()}".rstrip(": "))
    # TensorFlow says on a later line who was lost; Horovod's type alone tells it.
    lost = kinds.of_lost_peer(f"{type(error).__name__}: {error}")
    kind = kinds.PEER_LOST if lost else kinds.EXCEPTION
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


def before_training(command: list[str], in_training: bool, code: int, asked: set[int]) -> bool:
    """Whether a recipe was ended, by the signals `asked`, before its first step: nothing is lost.

    From then on recipes answer signals, so one that a signal killed had not come so far; and where
    one rank was killed the others fail to meet it. Of a user's own program nobody knows.
    """
    ends = asked & {signal.SIGTERM, signal.SIGUSR1}
    killed = code in {128 + number for number in ends}
    return command[0] == "-m" and bool(ends) and code != 0 and (killed or not in_training)


def record_stop(task: Task, run_dir: str) -> None:
    """Leave word of it in the run's folder; ranks may do so at the same time."""
    value = {"form": 1, "rank": task.rank, "host": task.host, "time": time.time()}
    run_files.write_json(os.path.join(run_dir, "stopped.json"), value)
