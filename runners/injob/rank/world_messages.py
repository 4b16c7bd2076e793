"""What the gate and the shim say when ranks do not form one world: what, why, and what to try."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import failure
from .task import Task

if TYPE_CHECKING:
    from .gate import Terms

Why = tuple[str, str]  # likely cause, what to try
NO_MEETING: Why = (
    "a rank did not come to the Gloo rendezvous, or the interface leads nowhere (the lines above)",
    "runner launch --network-interfaces NAME ..., or runner launch --controller mpi ...",
)
GLOO_WITH_GPUS = (
    "runner: warning: the job has GPUs, and torch.distributed uses gloo: each exchange goes "
    'through the host. init_process_group("nccl") does not'
)
INDEPENDENT = "for ranks that are independent on purpose: runner launch --no-gate ..."


def mismatch(terms: Terms, framework: str, size: int, rank: int, right: int, why: str = "") -> str:
    """Return the message for a world of another size; `why` is the cause where it is known."""
    cause, remedy = _why(terms, framework)
    what = (
        f"runner: world-size mismatch on rank {terms.task.name}: {right} ranks were started, "
        f"but {framework} sees a world of {size} (it calls this rank {rank})."
    )
    return _explained(terms, what, (why or cause, remedy))


def formed(size: int, right: int, by: str) -> str:
    """Return the line for a world; `right` is the number of ranks that were started."""
    what = "one world of" if size == right else f"a world of {size} of the"
    return f"runner: {what} {right} ranks ({by})"


def no_world(terms: Terms, known: str = "") -> str:
    """Return the message for a process that ended within hvd.init(), as MPI_Init does.

    `known` is why, where the rendezvous knows it.
    """
    task = terms.task
    cause, remedy = _why_mpi(task) if terms.controller == "mpi" else NO_MEETING
    what = (
        f"runner: no world on rank {task.name}: it ended within hvd.init(), which should have "
        f"joined it to the {task.size} tasks that were started."
    )
    return _explained(terms, what, (known or cause, remedy))


def never_formed(terms: Terms, alone: bool, ranks: int) -> str:
    """Return the message for a trainer that ended well, and never was one of several ranks."""
    what = (
        f"runner: no world on rank {terms.task.name}: the trainer ended, and formed no world of "
        f"the {ranks} ranks: it ran on its own."
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
        f"runner: warning: rank {task.name} has formed no world after {seconds / 60:.0f} min, and "
        f"calls for none: is each of the {task.size} ranks alone? If so the job will end as failed "
        f"({INDEPENDENT})"
    )


KNOWN = "Horovod, torch.distributed, MultiWorkerMirroredStrategy and mpi4py"


def _explained(terms: Terms, what: str, why: Why) -> str:
    """Add cause and remedy, on one rank of each node: the rest would only repeat it."""
    if not failure.speaks_for_node(terms.task, terms.run_dir):
        return what
    cause, remedy = why
    return f"{what}\n  likely cause: {cause}\n  try: {remedy}"


def _why(terms: Terms, framework: str) -> Why:
    if framework == "torch.distributed":
        return _why_torch()
    if framework == "tf.distribute":
        return (
            "TF_CONFIG is not set, or is not the job's",
            "runner launch --tf-config ..., which sets it for each rank",
        )
    if framework == "Horovod" and terms.controller == "gloo":
        return (
            "the Horovod in the image did not use the Gloo rendezvous: it was built without Gloo, "
            "or the trainer changed HOROVOD_* before hvd.init()",
            "apptainer exec IMAGE horovodrun --check-build, or runner launch --controller mpi ...",
        )
    return _why_mpi(terms.task)


def _why_torch() -> Why:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return (
            "torchrun was told another number of nodes or of processes than the job has: "
            f"{os.environ['GROUP_WORLD_SIZE']} x {os.environ['LOCAL_WORLD_SIZE']}",
            "runner launch --launcher torchrun ... train.py, which tells it the job's",
        )
    return (
        "the trainer gave init_process_group() a size or a store of its own, or changed RANK, "
        "WORLD_SIZE or MASTER_ADDR",
        "init_process_group() without them: runner sets the variables for each rank",
    )


def _why_mpi(task: Task) -> Why:
    """Return cause and remedy; srun leaves its --mpi= in SLURM_MPI_TYPE."""
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
            "runner launch --controller mpi --mpi pmix ..., or for Horovod --controller gloo",
        )
    return (
        f"the MPI in the image does not speak srun's --mpi={mpi_type}",
        "runner launch --controller gloo ..., or another type from: srun --mpi=list",
    )
