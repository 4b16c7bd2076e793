"""salloc: nodes that one waits for at a terminal."""

from __future__ import annotations

import os
import re

from ..core.model import Plan
from . import sbatch_errors
from .slurm_environment import scrubbed
from .slurm_options import resource_options

# salloc's own words, the same from 22.05 to 26.05: "salloc: Pending job allocation 42".
NUMBER = re.compile(r"^salloc: (Pending|Granted) job allocation (\d+)$")


def argv(plan: Plan) -> list[str]:
    """Return the command that waits for the nodes, without what runs in them."""
    options = [f"--job-name={plan.spec.name}", *resource_options(plan.spec.resources)]
    return ["salloc", *options, *plan.spec.sbatch_args]


def environment() -> dict[str, str]:
    """Return the environment without what a surrounding job would tell salloc."""
    return scrubbed(os.environ)


def heard(line: str) -> tuple[str, bool] | None:
    """Return a job's number, and whether it has its nodes, from a line of what salloc says."""
    found = NUMBER.match(line)
    return (found.group(2), found.group(1) == "Granted") if found else None


def advice(said: str) -> str:
    """Return the command to type after such a refusal."""
    return sbatch_errors.look(said)
