"""Within a Slurm job that is there already (salloc): the script is a process of this machine.

Its srun starts the ranks on as much of the job as was asked for. Slurm's accounting knows that
step only, so the job is watched and cancelled as a process, and ends with the Slurm job.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..core.job_record import ArrayPaths, JobPaths
from . import local, local_array, slurm_steps
from .local import ahead as ahead
from .local import by_hand as by_hand
from .local import cancel as cancel
from .local import directives as directives
from .local import history as history
from .local import is_id as is_id
from .local import opening as opening
from .local import refusals as refusals
from .local import states as states
from .protocol import Capabilities

CAPABILITIES = Capabilities("a Slurm job", "", ("srun", "mpirun", "horovodrun"), within_job=True)
SHEBANG = "#!/bin/bash"
ARRAYS, STEPS, INTERACTIVE = local_array, slurm_steps, None


def submit(paths: JobPaths | ArrayPaths, log: Path) -> str:
    """Start the run's script in the background; return `JOB.local-PID-STARTTIME`."""
    return f"{os.environ['SLURM_JOB_ID']}.{local.submit(paths, log)}"
