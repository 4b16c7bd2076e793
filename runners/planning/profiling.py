"""Whether the ranks can run under the profiler that was asked for."""

from __future__ import annotations

import shlex

from ..core.plan import Launching
from ..core.remedy import advice, change
from ..injob.rank import commands
from ..injob.rank.commands import AGENTS
from .case import Case, DecisionLog


def check(case: Case, launching: Launching, log: DecisionLog) -> None:
    """Note the profiler's command and ranks; refuse what cannot run."""
    asked = case.spec.profiling
    if asked is None:
        return
    log.choose("profile-with", asked.command, case.why("profile-with"), asked.tool)
    log.choose("profile-ranks", asked.ranks, case.why("profile-ranks"))
    if launching.launcher in AGENTS:
        log.refuse(
            f"--profile-with runs a rank's trainer, but {launching.launcher} starts the trainers",
            "",
            change(leave_out=["launcher"]),
        )
    tasks = case.resources.tasks
    last = max((one[-1] for one in commands.profiled_ranks(asked.ranks) or ()), default=0)
    if last >= tasks:
        log.refuse(
            f"--profile-ranks {asked.ranks}: there is no rank {last}",
            f"the job has {tasks} ranks, from 0",
            change(profile_ranks=commands.ALL),
        )
    name = shlex.split(asked.command)[0]
    brought = case.spec.modules or case.site.elsewhere
    if launching.runtime == "none" and not asked.tool and not brought:
        log.refuse(
            f"--profile-with: there is no {name} on this machine",
            "" if "/" in name else "it is not on the PATH",
            advice(f"the path of {name}, or --module NAME for a module that brings it"),
        )
