"""The interface of a scheduler: submit, query, cancel, and optional job arrays and steps.

Nothing outside of this folder asks for a scheduler's name: what differs is a capability.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.diagnosis import Diagnosis
from ..core.job_record import ArrayPaths, JobPaths, Status
from ..core.model import JobSpec, Resources
from ..core.plan import Plan
from ..core.version import __version__

HEADER = f"# Written by runner {__version__}. Each task is a run; its folder is a link in tasks/."


class Arrays(ABC):
    """Many runs in one job, of which each is a task.

    A task's script is that of its run, which also runs by hand; the array's own only finds it, by a
    link that has the task's number.
    """

    OWN_NUMBERS = True  # whether tasks may have any numbers, or 0, 1, 2 ... only

    @abstractmethod
    def script(
        self, plan: Plan, array: ArrayPaths, tasks: Sequence[int], at_once: int | None, cwd: str
    ) -> list[str]:
        """Return the lines of the script; of its tasks `at_once` may run at a time."""

    def start(self, shell: str, array: ArrayPaths, variable: str, log: bool = False) -> list[str]:
        """Return the last lines; `variable` has the task's number, with `log` they open its log."""
        run = f'{shlex.quote(str(array.tasks))}/"${variable}"'
        output = f" >> {run}/logs/job.log 2>&1" if log else ""
        return ["", HEADER, f"exec {shell} {run}/job.sbatch{output}"]

    def largest(self, count: int, highest: int) -> int:
        """Return how many tasks one array may have; raise Refused for more than can be had."""
        return count

    def task_id(self, whole: str, task: int) -> str:
        """Return the identifier of one task of an array."""
        return f"{whole}_{task}"

    def whole_id(self, id: str) -> str:
        """Return the identifier of the array that a task is of; another job's own."""
        return id.partition("_")[0]


class JobLocation(NamedTuple):
    """Where a job runs: its number, by which a command gets in, and its nodes."""

    number: str
    nodes: tuple[str, ...]


class Steps(ABC):
    """A way into a job that runs, beside its ranks."""

    @abstractmethod
    def location(self, id: str) -> JobLocation:
        """Return where a job runs; raise Refused when it does not."""

    @abstractmethod
    def names(self, nodes: str) -> tuple[str, ...]:
        """Return the nodes that a list of them, such as n[1-3], names."""

    @abstractmethod
    def argv(
        self,
        location: JobLocation,
        command: Sequence[str],
        pty: bool = False,
        labelled: bool = False,
    ) -> list[str]:
        """Return the command line that runs a command once on each node of `location`.

        `labelled` sets the node's name before each line, where there are several.
        """

    def within(self, nodes: int, pty: bool = False) -> list[str]:
        """Return the tokens by which a job's own script starts a command once on each node."""
        return []

    def once_per_node(self, nodes: int) -> list[str]:
        """Return such tokens for what takes no memory of its own: it shares the job's."""
        return []

    def list_nodes(self, nodes: int) -> str:
        """Return the command that prints, in a job's own script, its first nodes, one a line."""
        return "hostname"

    def environment(self) -> Mapping[str, str] | None:
        """Return the environment for `argv`; None is our own."""
        return None


class Scheduler(ABC):
    """A scheduler. ARRAYS and STEPS are None where it has no such thing."""

    SHEBANG = "#!/bin/bash"
    ARRAYS: Arrays | None = None
    STEPS: Steps | None = None

    def refusals(self, spec: JobSpec, resources: Resources) -> tuple[Diagnosis, ...]:
        """Return what it does not have of what was asked for, and of the resources decided on."""
        return ()

    def directives(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        """Return the lines at the head of a script that it reads itself."""
        return []

    def opening(self, plan: Plan, paths: JobPaths, cwd: str, at_terminal: bool) -> list[str]:
        """Return the script's first steps, for what the directives cannot say."""
        return []

    def by_hand(self, paths: JobPaths) -> str:
        """Return the command that submits a script again; "" where the script is just run."""
        return ""

    @abstractmethod
    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        """Submit a script; return the job's identifier. Raises Refused and SystemFault."""

    def is_id(self, text: str) -> bool:
        """Whether a text can be the number of a job that is not ours, to wait for."""
        return True

    @abstractmethod
    def states(self, ids: Iterable[str]) -> dict[str, Status]:
        """Return how the jobs stand that it still knows, with one call for all.

        Raises SystemFault when it does not answer, or was not understood.
        """

    def history(self, ids: Iterable[str]) -> dict[str, Status]:
        """Return what is known of jobs that it has forgotten, with one call for all."""
        return {}

    def ahead(self, id: str) -> int | None:
        """Return how many jobs of its partition come before one that waits; None if nobody tells.

        Sites that show everyone only their own jobs count no others.

        Raises SystemFault when the scheduler does not answer.
        """
        return None

    @abstractmethod
    def cancel(self, id: str) -> None:
        """Cancel a job; raise SystemFault with the scheduler's words."""


def limit_seconds(text: str) -> int | None:
    """Return a limit in Slurm's form, such as 30, 1:30:00 or 2-12:00, in seconds; None for none.

    sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, and with days from the hours on.
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (days or "0", *parts)):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, secs = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, secs = numbers
    else:
        hours, minutes, secs = (0, *numbers, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + secs


def clock(total: int) -> str:
    """Return seconds as HH:MM:SS."""
    return f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"
