"""What goes wrong at the rendezvous."""

from __future__ import annotations

from typing import Any

from ... import failure_kinds as kinds
from ..problem import Problem


class RendezvousError(Exception):
    """The ranks could not meet; `problem` says which of them is missing, and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def failed(kind: str, text: str, **fields: Any) -> RendezvousError:
    """Return the error for a kind of failure."""
    return RendezvousError(Problem(kind, text, fields))


def of_system(error: OSError) -> Problem:
    """Return the problem that an error of the system's is."""
    return Problem(kinds.RENDEZVOUS, str(error))
