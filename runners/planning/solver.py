"""The solver: Case -> Plan, or refusals with remedies that were found by solving again.

Pure: it depends on the case alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..contract.enums import Controller
from ..core.model import JobSpec, RuntimeName, SchedulerName
from ..core.plan import Plan
from ..core.remedy import LAUNCH, Remedy, change
from .case import Case
from .decisions import decide

# Ranked: what changes least comes first. None lets the solver choose.
CHANGES: tuple[dict[str, Any], ...] = (
    {"mpi": None},
    {"controller": Controller.GLOO},
    {"controller": Controller.GLOO, "mpi": None},
    {"controller": Controller.MPI, "mpi": None},
    {"launcher": None},
    {"launcher": None, "mpi": None},
    {"launcher": None, "controller": Controller.GLOO, "mpi": None},
    {"launcher": None, "controller": Controller.MPI, "mpi": None},
    {"runtime": None},
    {"scheduler": None},
    {"scheduler": SchedulerName.LOCAL},
)
MOST_REMEDIES = 3


def solve(case: Case) -> Plan:
    """Return the plan; one that cannot work has refusals, with remedies that were tried."""
    plan = decide(case)
    if not plan.refusals:
        return plan
    tried = _remedies(case)
    first, *others = plan.refusals
    # The refusal's own remedies fix just that; those found by trying may change more.
    # Advice comes after what can be typed.
    left_out = {name for remedy in first.remedies for name in remedy.leave_out}
    tried = tuple(
        remedy for remedy in tried if not {name for name, _ in remedy.options} <= left_out
    )
    both = dict.fromkeys([*first.remedies, *tried])
    ranked = tuple(sorted(both, key=lambda remedy: remedy.kind != LAUNCH))
    return replace(plan, refusals=(replace(first, remedies=ranked), *others))


def _remedies(case: Case) -> tuple[Remedy, ...]:
    """Return the changes that make the job work, each on its own, the best first.

    Found by solving again: never a guess.
    """
    remedies: list[Remedy] = []
    spec = case.spec
    for changes in CHANGES:
        if all(getattr(spec, name) == value for name, value in changes.items()):
            continue
        if "runtime" in changes and spec.runtime is RuntimeName.NONE:
            continue  # an environment's folder is no image
        solved = decide(case.asking(**changes))
        remedy = change(_options(spec, solved, changes))
        if not solved.refusals and remedy.options and remedy not in remedies:
            remedies.append(remedy)
    # Leave out what another remedy already does with fewer options.
    options = [set(remedy.options) for remedy in remedies]
    shortest = [
        remedy for remedy in remedies if not any(set(remedy.options) > fewer for fewer in options)
    ]
    return tuple(shortest[:MOST_REMEDIES])


def _options(spec: JobSpec, solved: Plan, changes: Iterable[str]) -> dict[str, str]:
    """Return the settings, of those of `changes`, that were decided otherwise than asked."""
    launching, wireup = solved.launching, solved.wireup
    decided = {
        "scheduler": launching.scheduler,
        "runtime": launching.runtime,
        "launcher": launching.launcher,
        "controller": wireup.controller.value,
        "mpi": wireup.mpi,
    }
    return {
        name: str(decided[name])
        for name in changes
        if decided[name] is not None and decided[name] != getattr(spec, name)
    }
