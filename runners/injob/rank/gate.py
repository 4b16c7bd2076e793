"""The world-size gate: whoever forms a world, its size must be the number of ranks started.

An MPI that finds no PMI, a Gloo controller that finds no rendezvous, or a strategy without
TF_CONFIG makes N worlds of one and says nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from .. import failure_kinds as kinds
from . import failure, reports, world_messages
from .problem import Problem, RendezvousError
from .rendezvous import join
from .task import Task
from .worlds import HOROVOD

EXIT_WORLD_SIZE = 82
VARIABLE = "RUNNER_TERMS"


@dataclass(frozen=True)
class Terms:
    """What every process of a rank has to know; it finds them in VARIABLE.

    `workers` are the ranks that a launcher such as torchrun starts for each task. `inbox` is the
    shim's, `store` the port and the prefix of its rendezvous. `check` is false with --no-gate,
    `meets` true where Horovod's Gloo meets by our rendezvous.
    """

    task: Task
    controller: str
    run_dir: str
    inbox: tuple[str, str]
    store: tuple[int, str]
    meets: bool
    check: bool = True
    workers: int = 1
    gpus: bool = False

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls) -> Terms:
        found = json.loads(os.environ[VARIABLE])
        return cls(**{**found, "task": Task(**found["task"])})


def expected(terms: Terms, env: Mapping[str, str]) -> int:
    """Return the size of the world that is right for this process.

    Under a torchrun that the trainer itself starts, a world of all tasks has an agent in each of
    them (GROUP_WORLD_SIZE, set by torchrun for its workers).
    """
    tasks = terms.task.size * terms.workers
    if terms.workers > 1 or "TORCHELASTIC_RUN_ID" not in env:
        return tasks
    all_in = int(env["GROUP_WORLD_SIZE"]) == tasks
    return int(env["WORLD_SIZE"]) if all_in else tasks * int(env["LOCAL_WORLD_SIZE"])


def no_world_formed(ranks: int, alone: Sequence[str] = ()) -> Problem:
    """Return the problem of a rank that ended well and was in no world.

    `alone` are the frameworks in whose world of one it was.
    """
    text = f"it formed no world of the {ranks} ranks that were started"
    return Problem(kinds.NO_WORLD_FORMED, text, {"tasks": ranks, "alone": list(alone)})


class Gate:
    """One process's: frameworks.py tells it of the worlds that are formed here.

    `calling` are the frameworks whose init has not returned; `at_end` is what to do when the
    trainer has come to its end.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms, self.task = terms, terms.task
        self.calling: set[str] = set()
        self.told: set[str] = set()
        self.in_a_world = False
        self.at_end: list[Callable[[], None]] = []

    def called(self, framework: str) -> None:
        self.calling.add(framework)
        self._tell(framework, reports.CALLED)

    def meet(self) -> None:
        """Wait for the other ranks, before Horovod's init: after the slow imports."""
        if not self.terms.meets:
            return
        try:
            os.environ.update(join.join(*self.terms.store))
        except RendezvousError as error:
            print(world_messages.no_world(self.terms, error.problem.text), flush=True)
            self._end(HOROVOD, error.problem)

    def formed(
        self, framework: str, size: int, rank: int, how: str = "", part: bool = False
    ) -> None:
        """End this process with EXIT_WORLD_SIZE unless the world is the job's.

        `how` is for people; a `part` of the job's was wanted.
        """
        self.calling.discard(framework)
        right = expected(self.terms, os.environ)
        if size != right and self.terms.check and not part:
            self.refuse(framework, size, rank, right)
        self.in_a_world = True
        self._tell(framework, reports.FORMED)
        if rank == 0 and size > 1 and framework not in self.told:
            self.told.add(framework)
            text = world_messages.formed(size, right, f"{framework}, {how}" if how else framework)
            print(text, file=sys.stderr, flush=True)

    def ended(self) -> None:
        """Note that the trainer has come to its end, and well. Collective."""
        for do in self.at_end:
            do()
        reports.tell(*self.terms.inbox, "", reports.ENDED)

    def left(self) -> None:
        """End a launcher's rank, which leaves without having been in a world, as failed."""
        ranks = expected(self.terms, os.environ)
        if self.in_a_world or ranks == 1 or not self.terms.check:
            return
        text = world_messages.never_formed(self.terms, False, ranks)
        print(text, file=sys.stderr, flush=True)
        self._end("", no_world_formed(ranks))

    def alone(self, framework: str) -> None:
        """Note a world of one that says nothing: it is no fault where another world is right."""
        self._tell(framework, reports.ALONE)

    def refuse(self, framework: str, size: int, rank: int, right: int, why: str = "") -> None:
        """Say that a world is another than the job's, and end this process."""
        # The one that says why must come to say it, also where another rank's end has made its
        # torchrun end it.
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        text = world_messages.mismatch(self.terms, framework, size, rank, right, why)
        print(text, file=sys.stderr, flush=True)
        what = f"{right} ranks were started, and {framework} sees a world of {size}"
        fields = {"tasks": right, "world": size, "framework": framework}
        self._end(framework, Problem(kinds.WORLD_SIZE, what, fields))

    def _end(self, framework: str, problem: Problem) -> None:
        failure.record(self.task, EXIT_WORLD_SIZE, problem, self.terms.run_dir)
        self._tell(framework, reports.WRONG)
        sys.stdout.flush()
        # Not sys.exit: a trainer's `except` must not carry on in a world that is not one.
        os._exit(EXIT_WORLD_SIZE)

    def _tell(self, framework: str, state: str) -> None:
        reports.tell(*self.terms.inbox, framework, state)
