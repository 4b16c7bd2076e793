"""A way into a job that runs on this machine: the command simply runs here."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..core.errors import Refused
from .local_process import alive
from .protocol import Place


def place(id: str) -> Place:
    """Return this machine; raise Refused when the job does not run here."""
    if not alive(id.partition("_")[0]):
        why = "it has ended, or is on another machine"
        raise Refused(f"job {id} does not run", why, f"runner status {id}")
    return Place("", (os.uname().nodename,))


def names(nodes: str) -> tuple[str, ...]:
    """Return the nodes of a list."""
    return tuple(nodes.split(","))


def argv(
    place: Place, command: Sequence[str], pty: bool = False, labelled: bool = False
) -> list[str]:
    """Return the command itself."""
    return list(command)


def within(nodes: int, pty: bool = False) -> list[str]:
    """Return nothing: the script is where the ranks are."""
    return []


def once_per_node(nodes: int) -> list[str]:
    """Return nothing, as above."""
    return []


def environment() -> None:
    """Return that our own will do."""
