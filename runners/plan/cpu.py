"""CPUs: how many a rank has, how it is bound to them, how many threads it starts."""

from __future__ import annotations

from dataclasses import replace

from ..core import gpus
from . import node_kinds, partition
from .case import Case
from .log import Log

EACH = "cpus-per-task"


def share(case: Case, log: Log) -> Case:
    """Return the case with the CPUs for each rank: as asked, else the GPU's part of a node."""
    resources = case.resources
    if resources.cpus_per_task:
        log.choose(EACH, resources.cpus_per_task, case.why(EACH))
        return case
    found = _of_a_gpu(case)
    if found is None:
        return case
    number, evidence = found
    log.choose(EACH, number, "its GPU's part of a node", evidence)
    return case.asking(resources=replace(resources, cpus_per_task=number))


def _of_a_gpu(case: Case) -> tuple[int, str] | None:
    """Return a rank's CPUs where each rank has GPUs, with what that rests on."""
    wanted, there = gpus.on_a_node(case.resources), partition.of(case)
    if wanted is None:
        return None
    profile = case.site.profile
    kinds = node_kinds.kinds(case.spec, profile) if profile else ()
    if profile and kinds and all(kind.gpus and kind.cpus for kind in kinds):
        poorest = min(kinds, key=lambda kind: kind.cpus // kind.gpus)
        evidence = f"{profile.name}: {poorest.cpus} CPUs, {poorest.gpus} GPUs on a node"
        return poorest.cpus // poorest.gpus, evidence
    fitting = [n for name, n in there.gpus if wanted[0] in ("", name)] if there else []
    if there is None or not fitting or there.cpus < max(fitting):
        return None
    return there.cpus // max(fitting), f"sinfo: {there.cpus} CPUs, {max(fitting)} GPUs on a node"


def bind(case: Case, log: Log) -> None:
    """Choose srun's --cpu-bind=, unless it is left to Slurm."""
    spec, resources, plugin = case.spec, case.resources, case.site.task_plugin
    if spec.cpu_bind:
        log.choose("cpu-bind", spec.cpu_bind, case.why("cpu-bind"))
        return
    theirs = case.site.environment.get("SLURM_CPU_BIND")
    by_srun = log.chosen("launcher") == "srun"
    if not by_srun or theirs or any("cpu-bind" in arg for arg in spec.srun_args):
        return
    if not (resources.cpus_per_task or 0) > 1 or resources.overcommit:
        return
    if "affinity" in plugin or "cgroup" in plugin:
        reason = "each rank's threads stay on its own cores"
        log.choose("cpu-bind", "cores", reason, f"TaskPlugin={plugin}")


def threads(case: Case, log: Log) -> None:
    """Choose the threads of a rank; without a number, each rank of a node would take all CPUs."""
    number = case.resources.cpus_per_task or 1
    log.set("OMP_NUM_THREADS", str(number), "the CPUs for each rank")
    log.choose("threads", number, "the CPUs for each rank")
