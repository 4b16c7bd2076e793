"""Whether the process groups that a job's processes report are one world of all its tasks.

A size alone does not tell: where each node starts its own processes, with its own rendezvous, two
nodes have two worlds of the right size.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


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
