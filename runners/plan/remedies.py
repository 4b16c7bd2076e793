"""Other settings with which the same job works, found by solving again: never a guess."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from ..core.model import JobSpec, Plan
from .case import Case

Solve = Callable[[Case], Plan]
# Ranked: what changes least comes first. None and "auto" let the solver choose.
CHANGES: tuple[dict[str, Any], ...] = (
    {"mpi": None},
    {"controller": "gloo"},
    {"controller": "gloo", "mpi": None},
    {"controller": "mpi", "mpi": None},
    {"launcher": "auto"},
    {"launcher": "auto", "mpi": None},
    {"launcher": "auto", "controller": "gloo", "mpi": None},
    {"launcher": "auto", "controller": "mpi", "mpi": None},
    {"runtime": "auto"},
    {"scheduler": "auto"},
    {"scheduler": "local"},
    {"nv": False},
)
MOST = 3


def find(case: Case, solve: Solve) -> tuple[str, ...]:
    """Return the options that make the job work, each on its own, the best first."""
    found: list[str] = []
    spec = case.spec
    for change in CHANGES:
        if all(getattr(spec, name) == value for name, value in change.items()):
            continue
        solved = solve(case.asking(**change))
        options = " ".join(_options(spec, solved, change))
        if not solved.refusals and options and options not in found:
            found.append(options)
    return tuple(_shortest(found))[:MOST]


def _shortest(found: list[str]) -> Iterator[str]:
    """Leave out what another remedy already does with fewer options."""
    for options in found:
        words = set(options.split())
        if not any(set(other.split()) < words for other in found):
            yield options


def _options(spec: JobSpec, solved: Plan, change: dict[str, Any]) -> Iterator[str]:
    """Yield the changed settings as options with the values that were chosen."""
    for name in change:
        before, after = getattr(spec, name), getattr(solved, name, None)
        if name == "nv":
            yield "--no-nv"
        elif after is not None and after != before:
            yield f"--{name} {after}"
