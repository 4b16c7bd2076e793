"""Launchers: Plan -> the tokens that start the ranks, around the container's."""

from __future__ import annotations

from .model import Plan

# A task that fails ends the job at once; one that merely returns early gives the others this long.
SECONDS_FOR_THE_OTHERS = 600


def outside(plan: Plan) -> list[str]:
    """Return the tokens before `apptainer exec`."""
    if plan.launcher != "srun":
        return []
    argv = ["srun", f"--mpi={plan.mpi}", "--kill-on-bad-exit=1"]
    argv.append(f"--wait={SECONDS_FOR_THE_OTHERS}")
    if plan.spec.resources.cpus_per_task:
        # Since Slurm 22.05 srun does not take it over from the batch job.
        argv.append(f"--cpus-per-task={plan.spec.resources.cpus_per_task}")
    return [*argv, *plan.spec.srun_args]


def shim_options(plan: Plan) -> list[str]:
    """Return the options by which the shim starts the ranks itself, where nobody else does."""
    if plan.launcher == "local":
        return ["--tasks", str(plan.spec.resources.tasks)]
    return []
