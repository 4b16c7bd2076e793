"""The world-size gate: after hvd.init(), Horovod's size must be the number of tasks started.

An MPI that finds no PMI, or a Gloo controller that finds no rendezvous, starts N worlds of one
and says nothing. The gate wraps `horovod.common.basics.HorovodBasics.init`, through which every
framework's `hvd.init()` goes (Horovod 0.19 to 0.28).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable

from .task import Task

BASICS = "horovod.common.basics"
EXIT_WORLD_SIZE = 82


class Gate(importlib.abc.MetaPathFinder):
    """Waits for Horovod to be imported, then wraps its init.

    `prepare` runs just before the first init, when the trainer has done its slow imports.
    """

    def __init__(self, task: Task, controller: str, prepare: Callable[[], None]) -> None:
        self.task, self.controller, self.prepare = task, controller, prepare
        self.passed = False

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
            self.prepare()
            result = init(this, *args, **kwargs)
            # A caller that names a communicator wants a part of the world on purpose.
            if not args and kwargs.get("comm") is None:
                self.check(this.size(), this.rank())
            return result

        basics.init = checked_init

    def check(self, size: int, rank: int) -> None:
        """End this process with EXIT_WORLD_SIZE unless Horovod's world is the launcher's."""
        self.passed = True
        if size == self.task.size:
            return
        print(explain(self.task, self.controller, size, rank), file=sys.stderr, flush=True)
        sys.stdout.flush()
        # Not sys.exit: a trainer's `except` must not carry on in a world that is not one.
        os._exit(EXIT_WORLD_SIZE)


def explain(task: Task, controller: str, size: int, rank: int) -> str:
    """Return the message: what happened, the evidence, the cause and what to type instead."""
    first = (
        f"runner: world-size mismatch on rank {task.name}: {task.size} tasks were started, "
        f"but Horovod sees a world of {size} (it calls this rank {rank})."
    )
    if task.rank != 0:
        return first
    cause, remedy = _cause(controller, os.environ.get("SLURM_MPI_TYPE", ""))
    return f"{first}\n  likely cause: {cause}\n  try: {remedy}"


def _cause(controller: str, mpi_type: str) -> tuple[str, str]:
    if controller == "mpi" and mpi_type in ("", "none"):
        return (
            "the MPI in the image found no PMI, since srun ran with --mpi=none",
            "runner launch --mpi pmix ..., or runner launch --controller gloo ...",
        )
    if controller == "mpi":
        return (
            f"the MPI in the image does not speak srun's --mpi={mpi_type}",
            "runner launch --controller gloo ..., or another type from: srun --mpi=list",
        )
    return (
        "the Horovod in the image did not use the Gloo rendezvous: it was built without Gloo, "
        "or the trainer changed HOROVOD_* before hvd.init()",
        "apptainer exec IMAGE horovodrun --check-build, then runner launch --controller mpi ...",
    )
