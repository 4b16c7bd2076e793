"""Launchers: Plan -> the tokens that start the ranks, around the container's and within it."""

from __future__ import annotations

from typing import Callable

from .model import Plan

# A task that fails ends the job at once; one that merely returns early gives the others this long.
SECONDS_FOR_THE_OTHERS = 600


def srun(plan: Plan) -> list[str]:
    """Return srun and its options; within an allocation also how much of it to take."""
    argv = ["srun", f"--mpi={plan.mpi}", "--kill-on-bad-exit=1"]
    argv.append(f"--wait={SECONDS_FOR_THE_OTHERS}")
    if plan.scheduler == "allocation":
        argv += _part(plan)
    if plan.spec.resources.cpus_per_task:
        # Since Slurm 22.05 srun does not take it over from the batch job.
        argv.append(f"--cpus-per-task={plan.spec.resources.cpus_per_task}")
    if plan.cpu_bind:
        argv.append(f"--cpu-bind={plan.cpu_bind}")
    return [*argv, *plan.spec.srun_args]


def _part(plan: Plan) -> list[str]:
    asked = plan.spec.resources
    options = [f"--nodes={asked.nodes}", f"--ntasks={asked.tasks}"]
    if asked.ntasks_per_node:
        options.append(f"--ntasks-per-node={asked.ntasks_per_node}")
    for name in ("nodelist", "exclude", "distribution", "gpus", "gpus_per_node", "gres"):
        value = getattr(asked, name)
        if value:
            options.append(f"--{name.replace('_', '-')}={value}")
    return [*options, *(["--overcommit"] if asked.overcommit else [])]


def mpirun(plan: Plan) -> list[str]:
    """Return the mpirun of an Open MPI on the host, which reads the allocation by itself."""
    asked = plan.spec.resources
    argv = ["mpirun", "-np", str(asked.tasks), "--bind-to", "none"]
    if asked.ntasks_per_node:
        argv += ["--map-by", f"ppr:{asked.ntasks_per_node}:node"]
    return [*argv, *(["--oversubscribe"] if asked.overcommit else [])]


def horovodrun(plan: Plan) -> list[str]:
    """Return the image's own horovodrun, for ranks on one node."""
    return ["horovodrun", "-np", str(plan.spec.resources.tasks), f"--{plan.controller}"]


OUTSIDE: dict[str, Callable[[Plan], list[str]]] = {"srun": srun, "mpirun": mpirun}
INSIDE: dict[str, Callable[[Plan], list[str]]] = {"horovodrun": horovodrun}


def outside(plan: Plan) -> list[str]:
    """Return the tokens before `apptainer exec`."""
    return OUTSIDE[plan.launcher](plan) if plan.launcher in OUTSIDE else []


def inside(plan: Plan) -> list[str]:
    """Return the tokens between the container's and the shim's."""
    return INSIDE[plan.launcher](plan) if plan.launcher in INSIDE else []


def shim_options(plan: Plan) -> list[str]:
    """Return the options that tell the shim who started it, or to start the ranks itself."""
    if plan.launcher == "local":
        return ["--tasks", str(plan.spec.resources.tasks)]
    return [] if plan.launcher == "srun" else ["--launcher", plan.launcher]
