"""The world-size gate: after hvd.init(), Horovod's size must be the number of tasks started.

An MPI that finds no PMI, or a Gloo controller that finds no rendezvous, starts N worlds of one
and says nothing. The gate wraps `horovod.common.basics.HorovodBasics.init`, through which every
framework's `hvd.init()` goes (Horovod 0.19 to 0.28).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import mmap
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable

from .. import failure_kinds as kinds
from .problem import Problem
from .task import Task

BASICS = "horovod.common.basics"
EXIT_WORLD_SIZE = 82


class Progress:
    """How far a trainer has come with hvd.init(), shared with its parent over fork."""

    NOT_CALLED, CALLED, RETURNED = b"\0", b"\1", b"\2"

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 1)

    def set(self, state: bytes) -> None:
        """Note a state."""
        self.memory[0:1] = state

    def get(self) -> bytes:
        """Return the last state noted."""
        return self.memory[0:1]


class Gate(importlib.abc.MetaPathFinder):
    """Waits for Horovod to be imported, then wraps its init.

    `prepare` runs just before the first init, when the trainer has done its slow imports; `record`
    is given the exit code and the problem of a world of another size.
    """

    def __init__(
        self,
        task: Task,
        controller: str,
        progress: Progress,
        prepare: Callable[[], None],
        record: Callable[[int, Problem], object],
    ) -> None:
        self.task, self.controller, self.progress = task, controller, progress
        self.prepare, self.record, self.told = prepare, record, False

    def install(self) -> None:
        """Start to watch imports."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Give Horovod's basics, and nothing else, a loader that wraps init."""
        if fullname != BASICS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._wrap_loader(spec.loader)
        return spec

    def _wrap_loader(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._wrap_init(module.HorovodBasics)

        loader.exec_module = exec_module

    def _wrap_init(self, basics: Any) -> None:
        init = basics.init

        def checked_init(this: Any, *args: Any, **kwargs: Any) -> Any:
            self.progress.set(Progress.CALLED)
            self.prepare()
            result = init(this, *args, **kwargs)
            self.progress.set(Progress.RETURNED)
            # A caller that names a communicator wants a part of the world on purpose.
            if not args and kwargs.get("comm") is None:
                self.check(this.size(), this.rank())
            return result

        basics.init = checked_init

    def check(self, size: int, rank: int) -> None:
        """End this process with EXIT_WORLD_SIZE unless Horovod's world is the launcher's."""
        if size == self.task.size:
            if self.task.rank == 0 and size > 1 and not self.told:
                self.told = True
                print(f"runner: one world of {size} ranks", file=sys.stderr, flush=True)
            return
        print(mismatch(self.task, self.controller, size, rank), file=sys.stderr, flush=True)
        text = f"{self.task.size} tasks were started, and Horovod sees a world of {size}"
        fields = {"tasks": self.task.size, "world": size}
        self.record(EXIT_WORLD_SIZE, Problem(kinds.WORLD_SIZE, text, fields))
        sys.stdout.flush()
        # Not sys.exit: a trainer's `except` must not carry on in a world that is not one.
        os._exit(EXIT_WORLD_SIZE)


def mismatch(task: Task, controller: str, size: int, rank: int) -> str:
    """Return the message for a world of another size."""
    return _explained(
        f"runner: world-size mismatch on rank {task.name}: {task.size} tasks were started, "
        f"but Horovod sees a world of {size} (it calls this rank {rank}).",
        task,
        _why_alone(task, controller),
    )


def no_world(task: Task, controller: str, known: str = "") -> str:
    """Return the message for a process that ended within hvd.init(), as MPI_Init does.

    `known` is why, where the rendezvous knows it.
    """
    cause, remedy = _why_alone(task, controller) if controller == "mpi" else WHY_NO_MEETING
    return _explained(
        f"runner: no world on rank {task.name}: it ended within hvd.init(), which should have "
        f"joined it to the {task.size} tasks that were started.",
        task,
        (known or cause, remedy),
    )


def _explained(what: str, task: Task, why: tuple[str, str]) -> str:
    """Add cause and remedy, on one rank of each node: the rest would only repeat it."""
    if task.local_rank != 0:
        return what
    cause, remedy = why
    return f"{what}\n  likely cause: {cause}\n  try: {remedy}"


WHY_NO_MEETING = (
    "a rank did not come to the Gloo rendezvous, or the interface leads nowhere (the lines above)",
    "runner launch --network-interfaces NAME ..., or runner launch --controller mpi ...",
)


def _why_alone(task: Task, controller: str) -> tuple[str, str]:
    """Return cause and remedy; srun leaves its --mpi= in SLURM_MPI_TYPE."""
    if controller == "gloo":
        return (
            "the Horovod in the image did not use the Gloo rendezvous: it was built without Gloo, "
            "or the trainer changed HOROVOD_* before hvd.init()",
            "apptainer exec IMAGE horovodrun --check-build, or runner launch --controller mpi ...",
        )
    if task.launcher != "srun":
        return (
            f"the MPI in the image does not understand the {task.launcher} that started it: "
            "another MPI, or another major version",
            "runner launch --controller gloo ..., or runner launch --launcher srun ...",
        )
    mpi_type = os.environ.get("SLURM_MPI_TYPE", "none")
    if mpi_type == "none":
        return (
            "the MPI in the image found no PMI (srun ran with --mpi=none)",
            "runner launch --mpi pmix ..., or runner launch --controller gloo ...",
        )
    return (
        f"the MPI in the image does not speak srun's --mpi={mpi_type}",
        "runner launch --controller gloo ..., or another type from: srun --mpi=list",
    )
