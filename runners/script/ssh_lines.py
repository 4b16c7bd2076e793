"""The part of a job's script by which what runs in its container reaches the other nodes. Pure.

The ssh there starts steps of the job (injob/ssh).
"""

from __future__ import annotations

from ..core.job_record import JobPaths
from ..core.plan import Plan
from ..core.tokens import Expanded
from ..injob.folders import SSH
from ..schedulers import SCHEDULERS
from . import launchers
from .runtimes import RUNTIMES


def possible(scheduler: str, runtime: str) -> bool:
    """Whether a job can have one."""
    return SCHEDULERS[scheduler].STEPS is not None and RUNTIMES[runtime].takes_ssh


def nodes(plan: Plan) -> list[str]:
    """Return the lines that find the nodes; none for a job without such an ssh."""
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    if not plan.ssh or not steps:
        return []
    listed = steps.list_nodes(plan.spec.resources.nodes)
    lines = [
        "# The nodes that `ssh` in the container reaches, by steps of this job.",
        f"nodes=$({listed} | paste -s -d , -)",
    ]
    slots = f":{launchers.per_node(plan)}"
    return [
        *lines,
        *[f"hosts=${{nodes//,/{slots},}}{slots}"] * (plan.launching.launcher == "horovodrun"),
    ]


def around(plan: Plan, paths: JobPaths) -> list[str]:
    """Return the tokens before the command that has it; none for a job without one."""
    steps = SCHEDULERS[plan.launching.scheduler].STEPS
    if not plan.ssh or not steps:
        return []
    words = [
        "python3",
        str(paths.injob / SSH.name),
        "around",
        plan.launching.runtime,
        Expanded("$nodes"),
    ]
    return [*words, str(paths.enter), *steps.within(1), "--"]
