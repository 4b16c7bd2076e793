"""CPUs: how many a rank has, how it is bound to them, how many threads it starts."""

from __future__ import annotations

from dataclasses import replace

from ..core import gpus
from ..core.model import JobSpec, Resources, Site
from ..settings.sites import node_kinds
from . import partition
from .choices import Notes


def share(spec: JobSpec, site: Site, notes: Notes) -> JobSpec:
    """Return the job with its CPUs for each rank: as asked, else the GPU's part of a node."""
    resources = spec.resources
    if resources.cpus_per_task:
        notes.choose("CPUs for each rank", str(resources.cpus_per_task), "as asked")
        return spec
    found = _of_a_gpu(spec, site)
    if found is None:
        return spec
    number, evidence = found
    notes.choose("CPUs for each rank", str(number), "its GPU's part of a node", evidence)
    return replace(spec, resources=replace(resources, cpus_per_task=number))


def _of_a_gpu(spec: JobSpec, site: Site) -> tuple[int, str] | None:
    """Return a rank's CPUs where each rank has GPUs, with what that rests on."""
    wanted, there = gpus.on_a_node(spec.resources), partition.of(spec.resources, site)
    if wanted is None:
        return None
    profile = site.profile
    kinds = node_kinds.kinds(spec, profile) if profile else ()
    if profile and kinds and all(kind.gpus and kind.cpus for kind in kinds):
        poorest = min(kinds, key=lambda kind: kind.cpus // kind.gpus)
        evidence = f"{profile.name}: {poorest.cpus} CPUs, {poorest.gpus} GPUs on a node"
        return poorest.cpus // poorest.gpus, evidence
    fitting = [n for name, n in there.gpus if wanted[0] in ("", name)] if there else []
    if there is None or not fitting or there.cpus < max(fitting):
        return None
    return there.cpus // max(fitting), f"sinfo: {there.cpus} CPUs, {max(fitting)} GPUs on a node"


def bind(spec: JobSpec, site: Site, launcher: str, notes: Notes) -> str | None:
    """Choose srun's --cpu-bind=, None to leave it to Slurm."""
    if spec.cpu_bind:
        return notes.choose("CPU binding", spec.cpu_bind, "as asked")
    theirs = site.environment.get("SLURM_CPU_BIND")
    plugins = ("affinity", "cgroup")
    if launcher != "srun" or theirs or any("cpu-bind" in arg for arg in spec.srun_args):
        return None
    if not (spec.resources.cpus_per_task or 0) > 1 or spec.resources.overcommit:
        return None
    if not any(plugin in site.task_plugin for plugin in plugins):
        return None
    reason = "each rank's threads stay on its own cores"
    return notes.choose("CPU binding", "cores", reason, f"TaskPlugin={site.task_plugin}")


def threads(resources: Resources, notes: Notes) -> None:
    """Choose the threads of a rank; without a number, each rank of a node would take all CPUs."""
    number = str(resources.cpus_per_task or 1)
    notes.set("OMP_NUM_THREADS", number, "the CPUs for each rank")
    notes.choose("threads", number, "the CPUs for each rank")
