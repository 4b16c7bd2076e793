"""Launchers: Plan -> the tokens that start the ranks, in front of the container's or within it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable

from ..contract.enums import Controller
from ..core.model import AGENTS, LauncherName
from ..core.plan import Plan
from ..core.quoting import Expanded
from ..runtimes.command_lines import own_values
from ..schedulers import capabilities
from . import environment

# A task that fails ends the job at once; one that merely returns early gives the others this long.
SECONDS_FOR_THE_OTHERS = 600
FOR_HOROVODRUN = re.compile("PATH|LD_.*|PYTHON.*|HOROVOD_.*")  # itself, not only for its ranks


def srun(plan: Plan) -> list[str]:
    """Return srun and its options; within an allocation also how much of it to take."""
    argv = ["srun", f"--mpi={plan.wireup.mpi}", "--kill-on-bad-exit=1"]
    argv.append(f"--wait={SECONDS_FOR_THE_OTHERS}")
    if plan.staging.any:
        # A step that holds what is staged runs beside this one, whose
        # --cpus-per-task implies --exact.
        argv.append("--overlap")
    resources = plan.resources
    if capabilities(plan.launching.scheduler).within_job:
        argv += _part(plan)
    elif not _job_has_number(plan):
        # With --cpus-per-task alone srun starts as many as the nodes have room for: hundreds in a
        # job that has them whole.
        argv.append(f"--ntasks={resources.tasks}")
    if resources.cpus_per_task:
        # srun of Slurm 22.05 and 23.02 does not inherit the batch job's --cpus-per-task.
        argv.append(f"--cpus-per-task={resources.cpus_per_task}")
    if plan.cpus.bind:
        argv.append(f"--cpu-bind={plan.cpus.bind}")
    if plan.spec.error:
        # Of the ranks alone: what srun itself says belongs to the log.
        argv += [
            f"--error={plan.spec.error}",
            *(["--open-mode=append"] if plan.interruption.requeue_limit else []),
        ]
    return [*argv, *plan.spec.srun_args]


def _job_has_number(plan: Plan) -> bool:
    """Whether Slurm knows how many ranks the job has: srun takes that over."""
    resources = plan.resources
    numbers = resources.ntasks, resources.ntasks_per_node
    return any(numbers) or any(arg.startswith(("--ntasks", "-n")) for arg in plan.spec.sbatch_args)


def _part(plan: Plan) -> list[str]:
    resources = plan.resources
    options = [f"--nodes={resources.nodes}", f"--ntasks={resources.tasks}"]
    if resources.ntasks_per_node:
        options.append(f"--ntasks-per-node={resources.ntasks_per_node}")
    of_gpus = ("gpus", "gpus_per_node", "gpus_per_task", "gres")
    for name in ("nodelist", "exclude", "distribution", *of_gpus):
        value = getattr(resources, name)
        if value:
            options.append(f"--{name.replace('_', '-')}={value}")
    return [*options, *(["--overcommit"] if resources.overcommit else [])]


def mpirun(plan: Plan) -> list[str]:
    """Return the mpirun of an Open MPI on the host, which reads Slurm's allocation by itself.

    For a scheduler that it does not know it gets the list of the nodes. It may reach them by ssh,
    so the job's variables have to be named.
    """
    resources, node_file = plan.resources, capabilities(plan.launching.scheduler).node_file
    share = ["--oversubscribe"] if resources.overcommit else []
    if not node_file:
        ranks_per_node = resources.ntasks_per_node
        place = ["--map-by", f"ppr:{ranks_per_node}:node"] if ranks_per_node else []
        return ["mpirun", "-np", str(resources.tasks), "--bind-to", "none", *place, *share]
    argv = ["mpirun", "-hostfile", Expanded(node_file), "-n", str(resources.tasks)]
    argv += ["-npernode", str(per_node(plan)), "--bind-to", "none"]
    for name in ("PATH", *(n for n in environment.names(plan) if n != "PATH")):
        argv += ["-x", name]
    return [*argv, *share, *plan.spec.srun_args]


def mpiexec(plan: Plan) -> list[str]:
    """Return PALS' mpiexec, as on Cray systems with PBS. Rendered, not run here.

    It asks PBS for the nodes, takes the environment along, and ends all ranks when one fails.
    """
    resources = plan.resources
    argv = ["mpiexec", "-n", str(resources.tasks), "-ppn", str(per_node(plan))]
    if resources.cpus_per_task:
        argv += ["--depth", str(resources.cpus_per_task), "--cpu-bind", plan.cpus.bind or "depth"]
    return [*argv, *plan.spec.srun_args]


def per_node(plan: Plan) -> int:
    """Return the ranks on each node, the last one may have fewer."""
    resources = plan.resources
    return resources.ntasks_per_node or resources.tasks_of_a_node


def horovodrun(plan: Plan) -> list[str]:
    """Return the image's own horovodrun, which reaches other nodes by the job's ssh (ranks.py).

    With Gloo it writes all that it finds in its environment on the ranks' command lines (0.28.1,
    gloo_run.py): there it has not the values of --env, and its ranks read them from their file.
    """
    names = [name for name, _ in plan.spec.env if not FOR_HOROVODRUN.fullmatch(name)]
    hidden = ["env", *(f"-u{name}" for name in names)] if names else []
    values = own_values(plan)
    if plan.wireup.controller is not Controller.GLOO:
        hidden, values = [], []
    argv = [
        *hidden,
        "horovodrun",
        "-np",
        str(plan.resources.tasks),
        f"--{plan.wireup.controller}",
    ]
    if plan.wireup.controller is Controller.MPI:
        # Its own begin with one dash, which the mpirun of Open MPI 5 does not read.
        argv.append("--binding-args=--bind-to none --map-by slot")
    return [*argv, *(["-H", Expanded("$hosts")] if plan.ssh else []), *values]


def agents(plan: Plan) -> list[str]:
    """Return the srun that starts one agent a node, on all of its CPUs that the job has.

    Without --cpus-per-task: srun warns of each value above the job's own. A step that does not ask
    for it gets them all, and bound to none the agent's ranks may use them.
    """
    if capabilities(plan.launching.scheduler).one_machine:
        return []
    resources = plan.resources
    one_each = replace(resources, ntasks=resources.nodes, ntasks_per_node=1, cpus_per_task=None)
    cpus = replace(plan.cpus, bind=plan.cpus.bind or "none")
    argv = srun(
        replace(plan, resources=one_each, wireup=replace(plan.wireup, mpi="none"), cpus=cpus)
    )
    within = capabilities(plan.launching.scheduler).within_job  # which says so itself
    part = [] if within else [f"--ntasks={resources.nodes}", "--ntasks-per-node=1"]
    return [*argv, *part]


LAUNCHERS: dict[LauncherName, Callable[[Plan], list[str]]] = {
    LauncherName.SRUN: srun,
    LauncherName.MPIRUN: mpirun,
    LauncherName.MPIEXEC: mpiexec,
    LauncherName.HOROVODRUN: horovodrun,
    LauncherName.LOCAL: lambda plan: [],
    **dict.fromkeys(AGENTS, agents),
}


def shim_options(plan: Plan) -> list[str]:
    """Return the options that tell the shim who started it, or to start the ranks itself."""
    launcher = plan.launching.launcher
    if launcher in AGENTS:
        alone = ["--tasks", "1"] if capabilities(plan.launching.scheduler).one_machine else []
        return [*alone, "--agent", launcher, "--workers", str(per_node(plan))]
    if launcher is LauncherName.LOCAL:
        return ["--tasks", str(plan.resources.tasks)]
    return [] if launcher is LauncherName.SRUN else ["--launcher", launcher]
