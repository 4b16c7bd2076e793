"""What the plan says of a cell, and whether that is what happened. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import outcome
from .outcome import Outcome

# What a reason of the plan predicts for a job that is submitted by force all the same.
PREDICTS = (
    (r"every rank would be alone", {outcome.ALONE, outcome.NO_WORLD}),
    (r"there is no MPI in|has no mpi controller", {outcome.NO_WORLD, outcome.NO_MPI}),
    (r"horovodrun does not know the mpirun", {outcome.UNKNOWN_MPI}),
    (r"this Slurm has no --mpi=", {outcome.NO_TYPE}),
)


@dataclass(frozen=True)
class Verdict:
    """Works or not; reasons against it; remedies in the plan's order; settings it makes."""

    works: bool
    reasons: tuple[str, ...]
    remedies: tuple[str, ...]
    settings: tuple[str, ...]


def read(plan: Mapping[str, Any]) -> Verdict:
    """The verdict in the output of `runner plan --json`."""
    refusals = plan["refusals"]
    return Verdict(
        works=bool(plan["works"]),
        reasons=tuple(refusal["what"] for refusal in refusals),
        remedies=tuple(_short(each) for refusal in refusals for each in refusal["remedies"]),
        settings=tuple(f"{item['name']}={item['value']}" for item in plan["variables"]),
    )


def _short(remedy: Mapping[str, Any]) -> str:
    """The options that a remedy sets, else its text."""
    return (
        " ".join(f"--{name} {value}" for name, value in remedy.get("options", ())) or remedy["text"]
    )


def disagreement(verdict: Verdict, real: Outcome) -> str:
    """Why verdict and reality do not go together, "" when they do."""
    if verdict.works:
        return "" if real.kind == outcome.WORLD else f"planned to work, and it {real.kind}"
    expected = [kind for reason in verdict.reasons for kind in predicted(reason)]
    if real.kind in expected:
        return ""
    return f"refused ({'; '.join(verdict.reasons)}), and what happened: {real.kind}"


def predicted(reason: str) -> set[str]:
    """The kinds of failure that a reason stands for."""
    return next((kinds for pattern, kinds in PREDICTS if re.search(pattern, reason)), set())
