"""Other settings with which the same job works, found by solving again: never a guess."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from ..core.model import JobSpec, Plan
from ..core.remedy import Remedy, Value, change
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
)
MOST = 3


def find(case: Case, solve: Solve) -> tuple[Remedy, ...]:
    """Return the changes that make the job work, each on its own, the best first."""
    found: list[Remedy] = []
    spec = case.spec
    for changes in CHANGES:
        if all(getattr(spec, name) == value for name, value in changes.items()):
            continue
        if "runtime" in changes and spec.runtime == "none":
            continue  # an environment's folder is no image
        solved = solve(case.asking(**changes))
        remedy = change(dict(_options(spec, solved, changes)))
        if not solved.refusals and remedy.options and remedy not in found:
            found.append(remedy)
    return tuple(_shortest(found))[:MOST]


def _shortest(found: list[Remedy]) -> Iterator[Remedy]:
    """Leave out what another remedy already does with fewer options."""
    for remedy in found:
        if not any(set(other.options) < set(remedy.options) for other in found):
            yield remedy


def _options(spec: JobSpec, solved: Plan, changes: dict[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield the changed settings with the values that were chosen."""
    for name in changes:
        before, after = getattr(spec, name), getattr(solved, name, None)
        if after is not None and after != before:
            yield name, after
