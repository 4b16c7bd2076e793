"""What keeps the user's login shell out of a job, and the environment modules. Pure."""

from __future__ import annotations

import shlex

from ..core.model import Plan
from ..injob.log_lines import NO_MODULE

# Of the login shell, these would lead the image's Python and loader to the host's files.
# LD_LIBRARY_PATH is not among them: srun may need it, and apptainer never passes it on.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_PRELOAD")
# By these Open MPI takes a process for one of srun's ranks, and ends it for want of PMI; and an
# mpirun in the image would start ranks by an srun that is not there. SLURM_JOB_ID is not missed.
NO_STEP = ("unset SLURM_STEP_ID SLURM_STEPID SLURM_JOBID SLURM_NODELIST",)
EXIT_NO_MODULE = 93


def lines(plan: Plan) -> list[str]:
    """Return the lines that unset what leaks in, and load the modules.

    What modules set stays out of a container too; without one it is meant for the trainer.
    """
    out = f"unset {' '.join(LEAKS)}"
    use = [f"module use {shlex.quote(folder)}" for folder in plan.module_use]
    names = (*plan.spec.modules, *(plan.host_mpi.modules if plan.host_mpi else ()))
    load = [_load(shlex.quote(name)) for name in names]
    return [out, *use, *load] if plan.runtime == "none" else [*use, *load, out]


def _load(module: str) -> str:
    """Return the line that loads a module; without it the job would fail later, and look odd."""
    words = shlex.quote(f"{NO_MODULE}{module}: it could not be loaded on this node")
    return f"module load {module} || {{ echo {words} >&2; exit {EXIT_NO_MODULE}; }}"
