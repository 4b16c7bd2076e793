"""What the plan says of a cell, and whether that is what happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import outcome
from .outcome import Outcome

# What a refusal of the plan, by its id, predicts for a job that is submitted all the same.
PREDICTS: Mapping[str, set[str]] = {
    "mpi-type-mismatch": {outcome.ALONE, outcome.NO_WORLD},
    "mpirun-mismatch": {outcome.ALONE, outcome.NO_WORLD},
    "no-mpi": {outcome.NO_WORLD, outcome.NO_MPI},
    "controller-missing": {outcome.NO_WORLD, outcome.NO_MPI},
    "horovodrun-mpich": {outcome.UNKNOWN_MPI},
    "mpi-type-missing": {outcome.NO_TYPE},
}


@dataclass(frozen=True)
class Verdict:
    """Works or not; reasons against it, and their ids; remedies in the plan's order.

    `settings` are those that it makes.
    """

    works: bool
    reasons: tuple[str, ...]
    remedies: tuple[str, ...]
    settings: tuple[str, ...]
    ids: tuple[str, ...] = ()


def read(plan: Mapping[str, Any]) -> Verdict:
    """The verdict in the output of `runner plan --json`."""
    refusals = [found for found in plan["diagnoses"] if found["severity"] == "failure"]
    return Verdict(
        works=bool(plan["works"]),
        reasons=tuple(refusal["what"] for refusal in refusals),
        remedies=tuple(_short(remedy) for refusal in refusals for remedy in refusal["remedies"]),
        settings=tuple(f"{item['name']}={item['value']}" for item in plan["variables"]),
        ids=tuple(refusal["id"] for refusal in refusals),
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
    expected = [kind for id in verdict.ids for kind in PREDICTS.get(id, ())]
    if real.kind in expected:
        return ""
    return f"refused ({'; '.join(verdict.reasons)}), and what happened: {real.kind}"
