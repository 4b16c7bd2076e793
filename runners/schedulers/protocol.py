"""What a scheduler is to the rest: its capabilities, its verbs, and what it may have besides.

A scheduler is a module with these names and a row in SCHEDULERS. Nothing outside of this folder
asks for a scheduler's name: what differs is a capability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from ..core.job_record import ArrayPaths, JobPaths, JobState
from ..core.model import JobSpec, Plan, Refusal


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
    node_file: the file with the names of a job's nodes, for an mpirun that does not know it.
    """

    title: str
    command: str = ""
    launchers: tuple[str, ...] = ()
    one_machine: bool = False
    within_job: bool = False
    warns: bool = False
    requeues: bool = False
    signals_ranks: bool = False
    output_patterns: bool = False
    tells_nodes: bool = False
    broadcasts: bool = False
    node_file: str = ""

    @property
    def queue(self) -> bool:
        """Whether jobs are submitted and wait; otherwise they are processes of this machine."""
        return bool(self.command)


class SchedulerStatus(NamedTuple):
    """What a scheduler says of a job; what it does not say is empty or None.

    `restart` counts how often it came back; `nodes` are as the scheduler writes them, such as
    n[1-4]; `elapsed` and `left` are seconds, `left` to the time limit; `start` is when a job that
    waits is expected to start, in Unix time.
    """

    state: JobState
    reason: str = ""
    restart: int = 0
    nodes: str = ""
    elapsed: float | None = None
    left: float | None = None
    start: float | None = None


class Place(NamedTuple):
    """Where a job runs: its number, by which a command gets in, and its nodes."""

    number: str
    nodes: tuple[str, ...]


class Arrays(Protocol):
    """Many runs in one job, of which each is a task."""

    @property
    def OWN_NUMBERS(self) -> bool:
        """Whether tasks may have any numbers, or 0, 1, 2 ... only."""

    def script(
        self,
        plan: Plan,
        array: ArrayPaths,
        tasks: Sequence[int],
        at_once: int | None,
        cwd: str,
    ) -> list[str]:
        """Return the lines of the script that starts the run of a task."""

    def largest(self, count: int, highest: int) -> int:
        """Return how many tasks one array may have; raise Refused for more than can be had."""

    def task_id(self, whole: str, task: int) -> str:
        """Return the identifier of one task of an array."""

    def whole_id(self, id: str) -> str:
        """Return the identifier of the array that a task is of; another job's own."""


class Steps(Protocol):
    """A way into a job that runs, beside its ranks."""

    def place(self, id: str) -> Place:
        """Return where a job runs; raise Refused when it does not."""

    def names(self, nodes: str) -> tuple[str, ...]:
        """Return the nodes that a list of them names."""

    def argv(
        self, place: Place, command: Sequence[str], pty: bool = False, labelled: bool = False
    ) -> list[str]:
        """Return the command line that runs a command once on each node of `place`."""

    def within(self, nodes: int, pty: bool = False) -> list[str]:
        """Return the tokens by which a job's own script starts a command once on each node."""

    def once_per_node(self, nodes: int) -> list[str]:
        """Return such tokens for what takes no memory of its own: it shares the job's."""

    def environment(self) -> Mapping[str, str] | None:
        """Return the environment for `argv`; None is our own."""


class Interactive(Protocol):
    """Nodes that one waits for at a terminal, and in which a script runs there."""

    def argv(self, plan: Plan) -> list[str]:
        """Return the tokens before the script."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment for them."""

    def heard(self, line: str) -> tuple[str, bool] | None:
        """Return a job's number, and whether it has its nodes, from a line of what it says."""

    def advice(self, said: str) -> str:
        """Return the command to type after such a refusal."""


class Scheduler(Protocol):
    """A scheduler. ARRAYS, STEPS and INTERACTIVE are None where it has no such thing."""

    @property
    def CAPABILITIES(self) -> Capabilities:
        """What it can do."""

    @property
    def SHEBANG(self) -> str:
        """The first line of a script."""

    @property
    def ARRAYS(self) -> Arrays | None:
        """Many runs in one job."""

    @property
    def STEPS(self) -> Steps | None:
        """A way into a job that runs."""

    @property
    def INTERACTIVE(self) -> Interactive | None:
        """Nodes that one waits for at a terminal."""

    def refusals(self, spec: JobSpec) -> tuple[Refusal, ...]:
        """Return what it does not have."""

    def directives(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        """Return the lines at the head of a script that it reads itself."""

    def opening(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        """Return the script's first steps, for what the directives cannot say."""

    def by_hand(self, paths: JobPaths) -> str:
        """Return the command that submits a script again; "" where the script is just run."""

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        """Submit a script; return the job's identifier. Raises Refused and SystemFault."""

    def is_id(self, text: str) -> bool:
        """Whether a text can be the number of a job that is not ours, to wait for."""

    def states(self, ids: Iterable[str]) -> dict[str, SchedulerStatus]:
        """Return how the jobs stand that it still knows, with one call for all."""

    def history(self, ids: Iterable[str]) -> dict[str, SchedulerStatus]:
        """Return what is known of jobs that it has forgotten, with one call for all."""

    def ahead(self, id: str) -> int | None:
        """Return how many jobs come before one that waits; None where nobody tells."""

    def cancel(self, id: str) -> None:
        """Cancel a job; raise SystemFault with the scheduler's words."""
