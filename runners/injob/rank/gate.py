"""The world-size check: each process group must have as many ranks as the job started.

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
from . import HOROVOD, failure, reports
from .failure import Problem, RendezvousError
from .rendezvous import join
from .task import Task

EXIT_WORLD_SIZE = 82
VARIABLE = "RUNNER_TERMS"
NO_MEETING = (  # the likely cause, and what to try
    "a rank did not join the Gloo rendezvous, or the interface has no route (see the lines above)",
    "runner launch --network-interfaces NAME ..., or runner launch --controller mpi ...",
)
GLOO_WITH_GPUS = (
    "runner: warning: the job has GPUs, but torch.distributed uses gloo: communication goes "
    'through host memory. init_process_group("nccl") does not'
)
INDEPENDENT = "for ranks that are independent on purpose: runner launch --no-gate ..."
KNOWN = "Horovod, torch.distributed, MultiWorkerMirroredStrategy and mpi4py"


@dataclass(frozen=True)
class GateSettings:
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
    def read(cls) -> GateSettings:
        found = json.loads(os.environ[VARIABLE])
        return cls(**{**found, "task": Task(**found["task"])})


def expected(terms: GateSettings, env: Mapping[str, str]) -> int:
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
    text = f"it created no process group of the {ranks} ranks that were started"
    return Problem(kinds.NO_WORLD_FORMED, text, {"tasks": ranks, "alone": list(alone)})


class Gate:
    """One process's: frameworks.py tells it of the worlds that are formed here.

    `calling` are the frameworks whose init has not returned; `at_end` is what to do when the
    trainer has come to its end.
    """

    def __init__(self, terms: GateSettings) -> None:
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
            print(no_world(self.terms, error.problem.text), flush=True)
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
            text = formed(size, right, f"{framework}, {how}" if how else framework)
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
        text = never_formed(self.terms, False, ranks)
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
        text = mismatch(self.terms, framework, size, rank, right, why)
        print(text, file=sys.stderr, flush=True)
        what = f"{right} ranks were started, but {framework} has world size {size}"
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


def mismatch(
    terms: GateSettings, framework: str, size: int, rank: int, right: int, why: str = ""
) -> str:
    """Return the message for a world of another size; `why` is the cause where it is known."""
    cause, remedy = _likely_why(terms, framework)
    what = (
        f"runner: world-size mismatch on rank {terms.task.name}: {right} ranks were started, "
        f"but {framework} has world size {size} (it calls this rank {rank})."
    )
    return _explained(terms, what, (why or cause, remedy))


def formed(size: int, right: int, by: str) -> str:
    """Return the line for a world; `right` is the number of ranks that were started."""
    what = "one world of" if size == right else f"a world of {size} of the"
    return f"runner: {what} {right} ranks ({by})"


def no_world(terms: GateSettings, known: str = "") -> str:
    """Return the message for a process that ended within hvd.init(), as MPI_Init does.

    `known` is why, where the rendezvous knows it.
    """
    task = terms.task
    cause, remedy = _why_mpi(task) if terms.controller == "mpi" else NO_MEETING
    what = (
        f"runner: no process group on rank {task.name}: it exited in hvd.init(), which should have "
        f"joined it to the {task.size} tasks that were started."
    )
    return _explained(terms, what, (known or cause, remedy))


def never_formed(terms: GateSettings, alone: bool, ranks: int) -> str:
    """Return the message for a trainer that ended well, and never was one of several ranks."""
    what = (
        f"runner: no process group on rank {terms.task.name}: the trainer ended and "
        f"created no process group of the {ranks} ranks: it ran alone."
    )
    cause = "it called neither hvd.init(), init_process_group(), nor another of " + KNOWN
    return _explained(terms, what, _why_mpi(terms.task) if alone else (cause, INDEPENDENT))


def late(task: Task, seconds: float, waits: Sequence[str]) -> str:
    """Return the line for a rank that is in no world yet; `waits` are the inits that it is in."""
    if waits:
        return (
            f"runner: rank {task.name} waits for the other ranks, after {seconds / 60:.0f} min "
            f"in {' and '.join(waits)}"
        )
    return (
        f"runner: warning: rank {task.name}: no process group was initialized after "
        f"{seconds / 60:.0f} min: each of the {task.size} ranks may be training alone. "
        "If so the job will end as failed "
        f"({INDEPENDENT})"
    )


def _explained(terms: GateSettings, what: str, why: tuple[str, str]) -> str:
    """Add cause and remedy, on one rank of each node: the rest would only repeat it."""
    if not failure.speaks_for_node(terms.task, terms.run_dir):
        return what
    cause, remedy = why
    return f"{what}\n  likely cause: {cause}\n  try: {remedy}"


def _likely_why(terms: GateSettings, framework: str) -> tuple[str, str]:
    if framework == "torch.distributed":
        return _why_torch()
    if framework == "tf.distribute":
        return (
            "TF_CONFIG is not set, or is not the one of this job",
            "runner launch --tf-config ..., which sets it for each rank",
        )
    if framework == "Horovod" and terms.controller == "gloo":
        return (
            "the Horovod in the image did not use the Gloo rendezvous: it was built without Gloo, "
            "or the trainer changed HOROVOD_* before hvd.init()",
            "apptainer exec IMAGE horovodrun --check-build, or runner launch --controller mpi ...",
        )
    return _why_mpi(terms.task)


def _why_torch() -> tuple[str, str]:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return (
            "torchrun was given another number of nodes or processes than the job has: "
            f"{os.environ['GROUP_WORLD_SIZE']} x {os.environ['LOCAL_WORLD_SIZE']}",
            "runner launch --launcher torchrun ... train.py, which passes on the job's",
        )
    return (
        "the trainer passed its own size or store to init_process_group(), or changed RANK, "
        "WORLD_SIZE or MASTER_ADDR",
        "init_process_group() without them: runner sets the variables for each rank",
    )


def _why_mpi(task: Task) -> tuple[str, str]:
    """Return cause and remedy; srun leaves its --mpi= in SLURM_MPI_TYPE."""
    if task.launcher != "srun":
        return (
            f"the MPI in the image does not work with the {task.launcher} that started it: "
            "another MPI, or another major version",
            "runner launch --controller gloo ..., or runner launch --launcher srun ...",
        )
    mpi_type = os.environ.get("SLURM_MPI_TYPE", "none")
    if mpi_type == "none":
        return (
            "the MPI in the image found no PMI (srun ran with --mpi=none)",
            "runner launch --controller mpi --mpi pmix ..., or for Horovod --controller gloo",
        )
    return (
        f"the MPI in the image does not support srun --mpi={mpi_type}",
        "runner launch --controller gloo ..., or another type from: srun --mpi=list",
    )
