"""The child's side: set Horovod up, then run the trainer as `python` would, in this process."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from .. import failure_kinds as kinds
from ..log_lines import NOT_JOINED
from . import failure, horovod_env
from .early_stop import EXIT_STOPPED
from .gate import EXIT_WORLD_SIZE, Gate, Progress, no_world
from .problem import RendezvousError
from .task import Task

if TYPE_CHECKING:
    from .rendezvous.session import Session

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = os.path.dirname(os.path.dirname(HERE))  # RUN/code, where packages of the job lie
SECONDS_FOR_CAUSE = 1.0  # in which the shim of a rank that was killed has recorded it


@dataclass(frozen=True)
class Work:
    """What to run, and how.

    `controller` is mpi or gloo; `placed` means that the launcher has set all of HOROVOD_*
    itself; `interfaces` are those for Gloo, none to find it; `command` is `-m MODULE` or a file,
    and the trainer's arguments.
    """

    controller: str
    placed: bool
    interfaces: tuple[str, ...]
    command: list[str]


def run(task: Task, work: Work, session: Session | None, progress: Progress, run_dir: str) -> int:
    """Run the trainer to its end; return an exit code for an exception, after its traceback.

    A failure is recorded here and now: on the way out Horovod tells the other ranks, who fail and
    make the launcher end this one before it has ended by itself.
    """
    record = partial(failure.record, task, run_dir=run_dir)
    gate = Gate(task, work.controller, progress, lambda: _meet(session), record)
    _set_environment(task, work)
    gate.install()
    try:
        _run_python(work.command)
    except SystemExit as leaving:
        if _code(leaving) not in (0, EXIT_STOPPED):
            said = leaving.code if isinstance(leaving.code, str) else ""
            record(_code(leaving), failure.of_exit(_code(leaving), said))
        raise
    except RendezvousError as error:
        print(no_world(task, work.controller, error.problem.text), flush=True)
        record(EXIT_WORLD_SIZE, error.problem)
        return EXIT_WORLD_SIZE
    except Exception as error:
        frame = _first_own_frame(error)
        lines = "".join(traceback.format_exception(type(error), error, frame)).splitlines()
        problem = failure.of_exception(1, error, lines)
        # Where hvd.init() failed the parent explains it.
        known = progress.get() != Progress.CALLED and record(1, problem)
        if not (known and problem.kind == kinds.PEER_LOST and _another_tells(run_dir)):
            print(*lines, sep="\n", file=sys.stderr, flush=True)
        return 1
    if progress.get() == Progress.NOT_CALLED and task.size > 1 and task.rank == 0:
        print(
            f"{NOT_JOINED}: {task.size} copies ran, each on its own",
            file=sys.stderr,
        )
    return 0


def _another_tells(run_dir: str) -> bool:
    """Whether another rank's record has the cause: this one's traceback would only distract."""
    deadline = time.monotonic() + SECONDS_FOR_CAUSE
    while not failure.cause_known(run_dir):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _code(leaving: SystemExit) -> int:
    """Return the exit code that Python makes of sys.exit(...): a text is printed, and 1."""
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    return 1


def _set_environment(task: Task, work: Work) -> None:
    # What the user exported wins, except for the place in the world, where a stale value from
    # another job would be a wrong answer.
    if work.placed:
        return
    place = horovod_env.for_gloo(task) if work.controller == "gloo" else horovod_env.for_mpi()
    for name, value in place.items():
        if name.endswith(("RANK", "SIZE", "HOSTNAME")):
            os.environ[name] = value
        else:
            os.environ.setdefault(name, value)


def _meet(session: Session | None) -> None:
    """Wait for the other ranks; this comes after the imports, which take each its own time."""
    if session is None:
        return
    for name, value in session.join().items():
        os.environ[name] = value


def _run_python(command: list[str]) -> None:
    """Do what `python -m MODULE` or `python FILE` does, with an import hook in place."""
    if command[0] == "-m":
        sys.argv = command[1:]
        # Not the current folder, as Python would: a `recipes` there is not the one that was asked
        # for. A recipe that the image lacks lies beside this package.
        sys.path.insert(0, CODE)
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


def _first_own_frame(error: Exception) -> TracebackType | None:
    """Return the traceback from the trainer's first line on, without our frames and runpy's.

    A trainer that is no Python has no line that ran; the error itself names the place.
    """
    frame: TracebackType | None = error.__traceback__
    ours = (HERE, runpy.__file__, "<frozen runpy>")
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(ours):
        frame = frame.tb_next
    return error.__traceback__ if frame is None and not isinstance(error, SyntaxError) else frame
