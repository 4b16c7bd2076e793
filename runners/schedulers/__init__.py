"""Schedulers: what each can do, its script's lines, submit, ask for states, cancel.

One module each, whose SCHEDULER is a `base.Scheduler`; adding one is that module, its
SchedulerName and a row in CAPABILITIES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ..core.model import AGENTS, LauncherName, SchedulerName

if TYPE_CHECKING:
    from .base import Scheduler


@dataclass(frozen=True)
class Capabilities:
    """What a scheduler can do. `title` is its name as people write it.

    `command` submits, and its being on the PATH tells that the scheduler is here; without one
    nothing is queued: the job is a process of this machine. `launchers` are those that go with it,
    the default first. Each of the rest is False, or empty, unless said:
    one_machine: the ranks run on this machine too, which is the job's only node.
    within_job: the ranks get a part of a job that is there already, and say which part.
    warns: it signals the script before the time limit, and the script may queue itself again.
    requeues: it queues a job again by itself, when another job comes first or a node fails.
    signals_ranks: at the end it sends SIGTERM to the ranks, not only to the script.
    output_patterns: it fills in %j and the like in --output.
    tells_nodes: it says what its nodes have, which the plan asks.
    broadcasts: it copies a file to all nodes at once, with sbcast.
    allocates: one can wait for its nodes at a terminal, with salloc.
    interactive: the command by which a terminal gets a shell on the first node of a job; it reads
        the directives of a script, and does not run it.
    node_file: the file with the names of a job's nodes, for an mpirun that does not know it.
    """

    title: str
    command: str = ""
    launchers: tuple[LauncherName, ...] = ()
    one_machine: bool = False
    within_job: bool = False
    warns: bool = False
    requeues: bool = False
    signals_ranks: bool = False
    output_patterns: bool = False
    tells_nodes: bool = False
    broadcasts: bool = False
    allocates: bool = False
    interactive: tuple[str, ...] = ()
    node_file: str = ""

    @property
    def queue(self) -> bool:
        """Whether jobs are submitted and wait; otherwise they are processes of this machine."""
        return bool(self.command)


# In the order in which they are looked for: Cobalt has a qsub too.
CAPABILITIES: Mapping[SchedulerName, Capabilities] = {
    SchedulerName.SLURM: Capabilities(
        "Slurm",
        "sbatch",
        (LauncherName.SRUN, LauncherName.MPIRUN, LauncherName.HOROVODRUN, *AGENTS),
        warns=True,
        requeues=True,
        signals_ranks=True,
        output_patterns=True,
        tells_nodes=True,
        broadcasts=True,
        allocates=True,
    ),
    SchedulerName.COBALT: Capabilities(
        "Cobalt",
        "cqsub",
        (LauncherName.MPIRUN, LauncherName.HOROVODRUN),
        node_file="$COBALT_NODEFILE",
    ),
    SchedulerName.PBS: Capabilities(
        "PBS",
        "qsub",
        (LauncherName.MPIEXEC, LauncherName.MPIRUN, LauncherName.HOROVODRUN),
        requeues=True,
        interactive=("qsub", "-I"),
        node_file="$PBS_NODEFILE",
    ),
    SchedulerName.ALLOCATION: Capabilities(
        "a Slurm job",
        "",
        (LauncherName.SRUN, LauncherName.MPIRUN, LauncherName.HOROVODRUN, *AGENTS),
        within_job=True,
    ),
    SchedulerName.LOCAL: Capabilities(
        "this machine", "", (LauncherName.LOCAL, LauncherName.HOROVODRUN, *AGENTS), one_machine=True
    ),
}


class _Schedulers(Mapping[SchedulerName, "Scheduler"]):
    """The schedulers by name; each is imported when it is used, which is one in a launch."""

    def __getitem__(self, name: SchedulerName) -> Scheduler:
        if name not in CAPABILITIES:
            raise KeyError(name)
        scheduler: Scheduler = import_module(f".{name}", __name__).SCHEDULER
        return scheduler

    def __iter__(self) -> Iterator[SchedulerName]:
        return iter(CAPABILITIES)

    def __len__(self) -> int:
        return len(CAPABILITIES)


SCHEDULERS: Mapping[SchedulerName, Scheduler] = _Schedulers()


def capabilities(name: SchedulerName) -> Capabilities:
    return CAPABILITIES[name]
