"""The catalogue of faults: a function for each, under the words of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .scene import Scene

Act = Callable[[Scene], None]


PROCESSES = "Processes"
NODES = "Nodes and network"
CONTROLLER = "Slurm's controller"
STORAGE = "Storage"
CLOCKS = "Clocks"
JOBS = "Signals to the job"
CLIENTS = "The user's command"
GROUPS = (PROCESSES, NODES, CONTROLLER, STORAGE, CLOCKS, JOBS, CLIENTS)


@dataclass(frozen=True)
class Fault:
    """`group` is the heading in the table, `what` the row's words."""

    name: str
    group: str
    what: str
    act: Act


FAULTS: list[Fault] = []


def in_order() -> list[Fault]:
    """All faults, as they stand in the table and are caused."""
    return sorted(FAULTS, key=lambda fault: GROUPS.index(fault.group))


def fault(group: str, what: str, name: str = "") -> Callable[[Act], Act]:
    """Enter a function into the catalogue."""

    def enter(act: Act) -> Act:
        FAULTS.append(Fault(name or act.__name__, group, what, act))
        return act

    return enter
