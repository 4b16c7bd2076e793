"""Cobalt, as on ALCF's ThetaGPU (retired). Its scripts were run with stand-ins for its commands.

Facts: ALCF's guides for Theta and ThetaGPU. Nodes are given whole. Cobalt forgets a job when it has
ended; what remains is what the job has left in its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..core import shell
from ..core.errors import SystemFault
from ..core.job_record import ArrayPaths, JobPaths, JobState, Status
from ..core.model import SchedulerName
from ..core.plan import Plan
from . import capabilities
from .base import limit_seconds
from .qsub import Qsub, job_name, queue_options

WAITS = ("queued", "user_hold", "admin_hold", "dep_hold", "dep_fail", "maxrun_hold", "starting")
STATES = {
    **dict.fromkeys(WAITS, JobState.PENDING),
    **dict.fromkeys(("running", "killing", "exiting"), JobState.RUNNING),
}


class Cobalt(Qsub):
    title, number = capabilities(SchedulerName.COBALT).title, re.compile(r"\d+")

    def directives(self, plan: Plan, paths: JobPaths, cwd: str) -> list[str]:
        """Return the #COBALT lines; --sbatch-arg follows as it is, for what else a site wants.

        The script writes its log itself, so Cobalt's copies of the output are dropped.
        """
        resources = plan.resources
        options = [
            f"--jobname {job_name(plan.spec.name)}",
            "--mode script",
            f"-n {resources.nodes}",
        ]
        limit = limit_seconds(resources.time) if resources.time else None
        if limit is not None:
            options.append(f"-t {-(-limit // 60)}")  # minutes
        options += [*queue_options(resources), "-o /dev/null", "-e /dev/null"]
        return [f"#COBALT {option}" for option in (*options, *plan.spec.sbatch_args)]

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        paths.script.chmod(0o755)  # Cobalt executes it itself
        return super().submit(paths, log)

    def states_argv(self, ids: Iterable[str]) -> list[str]:
        return ["qstat", "--header", "JobID:State", *ids]

    def parse_states(self, answer: shell.Result) -> dict[str, Status]:
        """Parse a table of two columns under a line of `=`; jobs that have ended are not in it.

        Raises SystemFault with what it printed when there is no table though something was said.
        """
        rows = re.findall(r"^\s*(\d+)\s+(\w+)\s*$", answer.out, re.MULTILINE)
        errors = answer.err.strip()
        if answer.code != 0 and not rows and errors and "===" not in answer.out:
            raise SystemFault(
                "Cobalt's answer was not understood", errors[:500], "qstat", id="cobalt-answer"
            )
        return {id: Status(STATES.get(state, JobState.UNKNOWN)) for id, state in rows}


SCHEDULER = Cobalt()
