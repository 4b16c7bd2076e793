"""Within a Slurm job that is there already (salloc): the script is a process of this machine.

Its srun starts the ranks on as much of the job as was asked for. Slurm's accounting knows that
step only, so the job is watched and cancelled as a process, and ends with the Slurm job.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..core.job_record import ArrayPaths, JobPaths
from ..core.plan import Plan
from . import slurm_script
from .local import Local
from .slurm_script import SlurmSteps


class Allocation(Local):
    """Jobs that are processes of this machine, within a Slurm job."""

    STEPS = SlurmSteps()

    def opening(self, plan: Plan, paths: JobPaths, cwd: str, at_terminal: bool) -> list[str]:
        lines = super().opening(plan, paths, cwd, at_terminal)
        return [*slurm_script.OWN_REQUEST.splitlines(), *lines]

    def submit(self, paths: JobPaths | ArrayPaths, log: Path) -> str:
        """Return `JOB.local-PID-STARTTIME`."""
        return f"{os.environ['SLURM_JOB_ID']}.{super().submit(paths, log)}"


SCHEDULER = Allocation()
