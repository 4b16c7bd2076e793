"""Judges whether the process groups of a job's processes are one world of all its tasks.

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
    """The verdict on the reports; `size` is that of the world, `why` a sentence."""

    state: State
    size: int = 0
    why: str = ""


def judge(members: Collection[Membership], tasks: int, entering: int = 0) -> WorldVerdict:
    """Return whether one framework's processes are one world of all `tasks`.

    A world is right if each rank is reported once and each task has a rank, such as T tasks with L
    processes each in one world of T * L. A single task may form any worlds. `entering` more
    processes are about to report: the first two of several worlds can fit together.
    """
    small = [member for member in members if member.size < tasks]
    if small:
        smallest = min(small, key=lambda member: (member.size, member.task))
        why = f"task {smallest.task} is in a world of {smallest.size}"
        return WorldVerdict(State.WRONG, smallest.size, why)
    for size in sorted({member.size for member in members}):
        owners: dict[int, set[int]] = {}
        for member in members:
            if member.size == size:
                owners.setdefault(member.rank, set()).add(member.task)
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
    """Return what is missing; if the job has ended, that is the fault."""
    size = max((member.size for member in members), default=0)
    ranks = {member.rank for member in members if member.size == size}
    absent = sorted(set(range(tasks)) - {member.task for member in members if member.size == size})
    why = f"{len(ranks)} of the {size} ranks of its world belong to this job"
    if absent and ranks:
        why += f", and none to task {absent[0]}"
    return WorldVerdict(State.OPEN, size, why)
