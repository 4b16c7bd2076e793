"""Whether the process groups that a job's processes report are one world of all its tasks; if not,
why, and what to change in the trainer.

A size alone does not tell: where each node starts its own processes, with its own rendezvous, two
nodes have two worlds of the right size. The causes are said in the job, and by `runner explain`.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ...contract.enums import Controller, ProcessGroup

if TYPE_CHECKING:
    from .task import Task

WHY_NO_MEETING = (  # the likely cause, and what to try
    "a rank did not join the Gloo rendezvous, or the interface has no route (see the lines above)",
    "runner launch --network-interfaces NAME ..., or runner launch --controller mpi ...",
)


@dataclass(frozen=True)
class Membership:
    """A process of `task` is `rank` in a world of `size`."""

    task: int
    rank: int
    size: int


class State(Enum):
    """OPEN: more can be reported. At the end of the job that is wrong too."""

    OPEN = "open"
    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True)
class WorldVerdict:
    """What the reports make of the worlds; `size` is that of the world, `why` a sentence."""

    state: State
    size: int = 0
    why: str = ""


def judge(members: Collection[Membership], tasks: int, entering: int = 0) -> WorldVerdict:
    """Return whether one framework's processes are one world of all `tasks`.

    Right is a world in which each rank is reported once and each task has a rank: T tasks with L
    processes each in one world of T * L. One task may form worlds as it likes. `entering` more
    processes are about to report: the first two of several worlds can fit together.
    """
    small = [one for one in members if one.size < tasks]
    if small:
        one = min(small, key=lambda one: (one.size, one.task))
        return WorldVerdict(State.WRONG, one.size, f"task {one.task} is in a world of {one.size}")
    for size in sorted({one.size for one in members}):
        owners: dict[int, set[int]] = {}
        for one in members:
            if one.size == size:
                owners.setdefault(one.rank, set()).add(one.task)
        twice = next((rank for rank, places in sorted(owners.items()) if len(places) > 1), None)
        if twice is not None:
            first, second = sorted(owners[twice])[:2]
            why = f"tasks {first} and {second} both have a rank {twice} of {size}"
            return WorldVerdict(State.WRONG, size, f"{why}: each is a world of its own")
        present = set().union(*owners.values())
        if len(owners) == size and len(present) == tasks:
            return WorldVerdict(State.OPEN if entering else State.RIGHT, size)
    return _open(members, tasks)


def _open(members: Collection[Membership], tasks: int) -> WorldVerdict:
    """Say what is missing, which is the fault where the job has ended."""
    size = max((one.size for one in members), default=0)
    ranks = {one.rank for one in members if one.size == size}
    absent = sorted(set(range(tasks)) - {one.task for one in members if one.size == size})
    why = f"{len(ranks)} of the {size} ranks of its world belong to this job"
    if absent and ranks:
        why += f", and none to task {absent[0]}"
    return WorldVerdict(State.OPEN, size, why)


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
