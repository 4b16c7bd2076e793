"""Writes the messages about a world that is not the job's: the likely cause, and what to change.

`runner explain` has the causes of contract/world_causes.py in the same words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...contract.enums import Controller, ProcessGroup
from ...contract.failure_kinds import FailureKind
from ...contract.world_causes import why_alone
from ..problems import Problem
from . import failures

if TYPE_CHECKING:
    from ..task import Task
    from .gate_settings import GateSettings

WHY_NO_MEETING = (  # the likely cause, and what to try
    "a rank did not join the Gloo rendezvous, or the interface has no route (see the lines above)",
    "runner launch --network-interfaces NAME ..., or runner launch --controller mpi ...",
)


def mismatch(
    settings: GateSettings, framework: str, size: int, rank: int, right: int, why: str = ""
) -> str:
    """Return the message for a world of another size; `why` is the cause where it is known."""
    cause, remedy = why_other_size(framework, settings.controller, settings.task)
    what = (
        f"runner: world-size mismatch on rank {settings.task.name}: {right} ranks were started, "
        f"but {framework} has world size {size} (it calls this rank {rank})."
    )
    return explained(settings, what, (why or cause, remedy))


def formed(size: int, right: int, by: str) -> str:
    """Return the line for a world; `right` is the number of ranks that were started."""
    what = "one world of" if size == right else f"a world of {size} of the"
    return f"runner: {what} {right} ranks ({by})"


def no_world(settings: GateSettings, known: str = "") -> str:
    """Return the message for a process that ended within hvd.init(), as MPI_Init does.

    `known` is the reason, if the rendezvous knows it.
    """
    task = settings.task
    cause, remedy = why_no_mpi(task) if settings.controller is Controller.MPI else WHY_NO_MEETING
    what = (
        f"runner: no process group on rank {task.name}: it exited in hvd.init(), which should have "
        f"joined it to the {task.size} tasks that were started."
    )
    return explained(settings, what, (known or cause, remedy))


def never_formed(
    settings: GateSettings, alone: Sequence[str], imports: Sequence[str]
) -> tuple[str, Problem]:
    """Return message and problem of a trainer that ended well, and never was one of several ranks.

    `alone` are the frameworks in whose world of one it was; it had imported `imports`.
    """
    ranks = settings.ranks
    what = (
        f"runner: no process group on rank {settings.task.name}: the trainer ended and "
        f"created no process group of the {ranks} ranks: it ran alone."
    )
    by_mpi = alone and ProcessGroup.HOROVOD not in alone
    why = why_no_mpi(settings.task) if by_mpi else why_alone(alone, imports)
    text = f"it created no process group of the {ranks} ranks that were started"
    fields = {"tasks": ranks, "alone": list(alone), "imports": list(imports)}
    return explained(settings, what, why), Problem(FailureKind.NO_WORLD_FORMED, text, fields)


def explained(settings: GateSettings, message: str, why: tuple[str, str]) -> str:
    """Return the message, with cause and remedy on one rank of each node, which is enough."""
    if not failures.speaks(settings.task, settings.run_dir):
        return message
    cause, remedy = why
    return f"{message}\n  likely cause: {cause}\n  try: {remedy}"


def why_other_size(framework: str, controller: Controller, task: Task) -> tuple[str, str]:
    """Return the likely cause of a world of another size than the job's, and what to do."""
    if framework == ProcessGroup.TORCH:
        return _why_torch()
    if framework == ProcessGroup.TENSORFLOW:
        return (
            "TF_CONFIG is not set, or is not the one of this job",
            "runner launch --tf-config ..., which sets it for each rank",
        )
    if framework == ProcessGroup.HOROVOD and controller is Controller.GLOO:
        return (
            "the Horovod in the image did not use the Gloo rendezvous: it was built without Gloo, "
            "or the trainer changed HOROVOD_* before hvd.init()",
            "apptainer exec IMAGE horovodrun --check-build, or runner launch --controller mpi ...",
        )
    return why_no_mpi(task)


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


def why_no_mpi(task: Task) -> tuple[str, str]:
    """Return why MPI did not join the ranks, and what to do.

    srun leaves its --mpi= in SLURM_MPI_TYPE.
    """
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
