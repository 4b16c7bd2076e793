"""Checks in each of the trainer's processes that its world is not smaller than the job.

An MPI that finds no PMI, a Gloo controller that finds no rendezvous, or a strategy without
TF_CONFIG makes N worlds of one and says nothing. Whether worlds of the right size are one is
decided where all of them are reported (worlds.py, referee.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ...contract.enums import ProcessGroup
from ...contract.exit_codes import EXIT_WORLD_SIZE
from ...contract.failure_kinds import FailureKind
from ...contract.world_causes import COULD
from ..one_model.exchanges import Exchanges
from ..one_model.weights import END
from ..problems import Problem, RendezvousError
from . import failures, reports, world_messages
from .gate_settings import GateSettings
from .reports import ReportState

GLOO_WITH_GPUS = (
    "runner: warning: the job has GPUs, but torch.distributed uses gloo: communication goes "
    'through host memory. init_process_group("nccl") does not'
)


def fits(settings: GateSettings, size: int, env: Mapping[str, str]) -> bool:
    """Whether a world of `size` can be that of the whole job, as far as one process can tell.

    A task may start several processes itself. Under a torchrun that the trainer starts, a world of
    all tasks has an agent in each of them (GROUP_WORLD_SIZE, set by torchrun for its workers).
    """
    if settings.workers > 1:
        return size == settings.ranks
    if "TORCHELASTIC_RUN_ID" in env and int(env["GROUP_WORLD_SIZE"]) != settings.task.size:
        return False
    return size >= settings.task.size


class Gate:
    """The gate of one process: frameworks.py tells it of the worlds that are formed here.

    `calling` are the frameworks whose init has not returned; `at_end` is called when the trainer
    has ended.
    """

    def __init__(self, settings: GateSettings) -> None:
        self.settings, self.task = settings, settings.task
        self.calling: set[str] = set()
        self.told: set[str] = set()
        self.world = (0, 1)  # rank and size
        self.may_differ = ""  # why each rank may have weights of its own
        self.exchanges = Exchanges()
        self.watches: list[Any] = []
        self.at_end: list[Callable[[], None]] = []

    def called(self, framework: str) -> None:
        self.calling.add(framework)
        self._tell(framework, ReportState.CALLED)

    def meet(self) -> None:
        """Wait for the other ranks, before Horovod's init and after the slow imports."""
        if not self.settings.meets or _meets_elsewhere(self.settings, os.environ):
            return
        try:
            from .rendezvous.session import meet  # here, because few processes do

            os.environ.update(meet(*self.settings.store))
        except RendezvousError as error:
            print(world_messages.no_world(self.settings, error.problem.text), flush=True)
            self._end(ProcessGroup.HOROVOD, error.problem)

    def formed(
        self, framework: str, size: int, rank: int, how: str = "", part: bool = False
    ) -> None:
        """End this process with EXIT_WORLD_SIZE where the world cannot be the job's.

        `how` is for people. With `part` the trainer wanted a group of some ranks, which is no world
        of the job.
        """
        self.calling.discard(framework)
        by = f"{framework}, {how}" if how else framework
        if part and size < self.settings.ranks:
            self.alone(framework)
            return
        if self.settings.check and not fits(self.settings, size, os.environ):
            self.refuse(framework, size, rank, self.settings.ranks)
        self.world = max(self.world, (rank, size), key=lambda world: world[1])
        self.exchanges.others = self.exchanges.others or framework == ProcessGroup.MPI
        self._tell(framework, ReportState.FORMED, rank=rank, size=size, by=by)
        if not self.settings.check and rank == 0 and size > 1 and framework not in self.told:
            self.told.add(framework)
            print(world_messages.formed(size, self.settings.ranks, by), file=sys.stderr, flush=True)

    def ended(self) -> None:
        """Note that the trainer has ended well. All ranks must call this."""
        self.report_last_weights()
        for do in self.at_end:
            do()
        self._tell("", ReportState.ENDED, imports=imported())

    def report_weights(self, **fields: Any) -> None:
        """Tell the shim of an optimizer's weights, or that this process is in no process group."""
        rank, size = self.world
        if rank:
            fields.pop("names", None)
        fields["may_differ"] = fields.get("may_differ") or self.exchanges.sent or self.may_differ
        if size > 1:
            self._tell("", ReportState.WEIGHTS, rank=rank, size=size, **fields)
        elif self.settings.ranks > 1 and fields.get("steps"):
            steps, rank, ranks = fields["steps"], self.task.rank, self.settings.ranks
            self._tell("", ReportState.WEIGHTS, rank=rank, size=ranks, step=END, outside=steps)

    def report_last_weights(self) -> None:
        for watch in self.watches:
            watch.end()

    def left(self) -> None:
        """Fail a launcher's rank that ends without having been in a world."""
        if self.world[1] > 1 or self.settings.ranks == 1 or not self.settings.check:
            return
        text, problem = world_messages.never_formed(self.settings, (), imported())
        print(text, file=sys.stderr, flush=True)
        self._end("", problem)

    def alone(self, framework: str) -> None:
        """Note a group of some ranks, or of one: no fault where another group has all."""
        self._tell(framework, ReportState.ALONE)

    def refuse(self, framework: str, size: int, rank: int, right: int, why: str = "") -> None:
        """Say that a world has the wrong size, and end this process."""
        # The one that says why must come to say it, also where another rank's end has made its
        # torchrun end it.
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        text = world_messages.mismatch(self.settings, framework, size, rank, right, why)
        print(text, file=sys.stderr, flush=True)
        what = f"{right} ranks were started, but {framework} has world size {size}"
        fields = {"tasks": right, "world": size, "framework": framework}
        self._end(framework, Problem(FailureKind.WORLD_SIZE, what, fields))

    def _end(self, framework: str, problem: Problem) -> None:
        failures.record(self.task, EXIT_WORLD_SIZE, problem, self.settings.run_dir)
        self._tell(framework, ReportState.WRONG)
        sys.stdout.flush()
        # Not sys.exit: a trainer's `except` must not carry on in a world that is not one.
        os._exit(EXIT_WORLD_SIZE)

    def _tell(self, framework: str, state: ReportState, **fields: Any) -> None:
        reports.tell(*self.settings.inbox, framework, state, process=os.getpid(), **fields)


def _meets_elsewhere(settings: GateSettings, env: Mapping[str, str]) -> bool:
    """Whether Horovod's Gloo has another rendezvous, as under a horovodrun in the trainer."""
    token = settings.store[1].strip("/").partition(":")[0]
    return token not in env.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", token)


def imported() -> list[str]:
    """Return what this process has imported of what initializes process groups."""
    return [name for name in COULD if name in sys.modules]
