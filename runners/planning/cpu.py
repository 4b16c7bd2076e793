"""CPUs: how many a rank has, how it is bound to them, how many threads it starts."""

from __future__ import annotations

from dataclasses import replace

from ..contract.enums import Controller
from ..core import gpus
from ..core.model import LauncherName, SchedulerName
from ..core.plan import ChoiceId, Cpus, Variable
from ..core.remedy import change
from ..core.site import Partition, Site
from ..schedulers import capabilities
from . import partition, site_limits
from .case import Case, DecisionLog, JobResources, RankResources, Start

EACH = ChoiceId.CPUS_PER_TASK
LEVEL = "cpu.level"  # the label


def share(
    case: Case, resources: RankResources, scheduler: SchedulerName, log: DecisionLog
) -> JobResources:
    """Return the resources with the CPUs of each rank: as asked, else its GPU's part of a node."""
    cpus = _each(case, resources, scheduler, log)
    return JobResources(replace(resources, cpus_per_task=cpus))


def _each(
    case: Case, resources: RankResources, scheduler: SchedulerName, log: DecisionLog
) -> int | None:
    room = _room(case, resources, scheduler)
    if room is not None and max(resources.cpus_per_task or 1, 1) > room:
        return _within(case, resources, room, log)
    if capabilities(scheduler).queue and resources.overcommit and resources.tasks > resources.nodes:
        return _shared(case, resources, log)
    if resources.cpus_per_task:
        return log.choose(EACH, resources.cpus_per_task, case.why(EACH))
    of_gpu = _of_a_gpu(case.site, resources, scheduler)
    if of_gpu is None:
        return None
    number, evidence = of_gpu
    return log.choose(EACH, number, "its GPU's share of the node", evidence)


def _room(case: Case, resources: RankResources, scheduler: SchedulerName) -> int | None:
    """Return how many CPUs the surrounding job has for each rank, None without one."""
    allocated = case.site.allocated_cpus
    if not capabilities(scheduler).within_job or not allocated or resources.overcommit:
        return None
    return allocated // resources.tasks_of_a_node


def _within(case: Case, resources: RankResources, room: int, log: DecisionLog) -> int | None:
    """Take what the surrounding job has, where nobody asked for more; refuse what was asked for."""
    requested, site = resources.cpus_per_task or 1, case.site
    evidence = f"SLURM_JOB_CPUS_PER_NODE: {site.allocated_cpus} CPUs on a node at least"
    if room and case.is_unasked(EACH):
        reason = f"available per rank in job {site.allocation}; {case.why(EACH)}: {requested}"
        return log.choose(EACH, room, reason, evidence)
    log.refuse(
        "allocation-cpus",
        f"job {site.allocation} has too few CPUs for ranks with {requested} each",
        evidence,
        change(cpus_per_task=room) if room else change(overcommit=True),
    )
    return resources.cpus_per_task


def _shared(case: Case, resources: RankResources, log: DecisionLog) -> int | None:
    """Ask for no CPUs of a rank's own, where ranks share those of a node.

    With a number of them Slurm 24.11 leaves the job pending, with the reason Resources; it gives
    such a job one CPU of a node.
    """
    cpus = resources.cpus_per_task or 1
    if cpus > 1 and not case.is_unasked(EACH):
        what = f"ranks that share a CPU (--overcommit) cannot have {cpus} CPUs each"
        log.refuse(
            "overcommit-cpus", what, "", change(cpus_per_task=1), change(leave_out=["overcommit"])
        )
        return cpus
    log.choose(EACH, 1, "all ranks of a node share it: --overcommit")
    return None


def _of_a_gpu(
    site: Site, resources: RankResources, scheduler: SchedulerName
) -> tuple[int, str] | None:
    """Return a rank's CPUs where each rank has GPUs, with what that rests on."""
    wanted, chosen = gpus.on_a_node(resources), partition.of(site, resources)
    if wanted is None:
        return None
    profile = site.profile
    kinds = site_limits.node_kinds(resources, profile) if profile else ()
    if capabilities(scheduler).one_machine:
        if not 0 < site.gpus <= site.cpus:
            return None
        cpus, number, source = site.cpus, site.gpus, "this machine"
    elif profile and kinds and all(kind.gpus and kind.cpus for kind in kinds):
        poorest = min(kinds, key=lambda kind: kind.cpus // kind.gpus)
        cpus, number, source = poorest.cpus, poorest.gpus, profile.name
    else:
        poorest_node = _poorest(chosen, resources, wanted) if chosen else None
        if poorest_node is None:
            return None
        cpus, number, source = *poorest_node, "sinfo"
    of_job = cpus * min(wanted[1] or number, number) // number  # CPUs of a node
    evidence = f"{source}: {cpus} CPUs, {number} GPUs on a node"
    return max(1, of_job // resources.tasks_of_a_node), evidence


def _poorest(
    chosen: Partition, resources: RankResources, wanted: tuple[str, int]
) -> tuple[int, int] | None:
    """Return CPUs and GPUs of the node with the fewest CPUs for a GPU, of those that have enough.

    Where nothing is known of the nodes they are those of the partition's smallest.
    """
    kind, number = wanted
    nodes = [
        (group.cpus, group.count(kind)) for group in partition.groups(chosen, resources.constraint)
    ]
    fitting = [node for node in nodes if node[0] >= node[1] >= max(number, 1)]
    if fitting:
        return min(fitting, key=lambda node: node[0] // node[1])
    counts = [count for name, count in chosen.gpus if kind in ("", name)]
    return (chosen.cpus, max(counts)) if counts and chosen.cpus >= max(counts) else None


def choose(case: Case, start: Start, log: DecisionLog) -> Cpus:
    """Choose how ranks are bound, their threads, and the instructions that the nodes must have."""
    binding = _bind(case, start, log)
    log.choose(ChoiceId.THREADS, start.resources.cpus_per_task or 1, "CPUs per rank")
    return Cpus(binding, _level(case, start.wireup.controller, log))


def variables(resources: JobResources) -> tuple[Variable, ...]:
    """Return the number of threads: without it each rank would start some for all of the CPUs."""
    return (Variable("OMP_NUM_THREADS", str(resources.cpus_per_task or 1), "CPUs per rank"),)


def _bind(case: Case, start: Start, log: DecisionLog) -> str | None:
    """Choose srun's --cpu-bind=, unless it is left to Slurm."""
    spec, plugin, resources = case.spec, case.site.task_plugin, start.resources
    if spec.cpu_bind:
        return log.choose(ChoiceId.CPU_BIND, spec.cpu_bind, case.why(ChoiceId.CPU_BIND))
    by_srun = start.launching.launcher is LauncherName.SRUN
    if not by_srun or any("cpu-bind" in arg for arg in spec.srun_args):
        return None
    here = case.site.environment
    # A step sets both for itself: that is no wish of the user's, and sbatch sees neither.
    if "SLURM_CPU_BIND" in here and "SLURM_CPU_BIND_TYPE" not in here:
        return log.choose(ChoiceId.CPU_BIND, here["SLURM_CPU_BIND"], "from SLURM_CPU_BIND")
    if (resources.cpus_per_task or 1) == 1 or resources.overcommit:
        return None
    if "affinity" in plugin or "cgroup" in plugin:
        reason = "each rank's threads stay on its own cores"
        return log.choose(ChoiceId.CPU_BIND, "cores", reason, f"TaskPlugin={plugin}")
    return None


def _level(case: Case, controller: Controller, log: DecisionLog) -> str:
    """Return the instructions that the nodes' CPUs must have for the image's Horovod, or ""."""
    needed = case.image.fact(LEVEL)
    if needed in ("", "any") or controller is Controller.NONE:
        return ""
    how = case.image.how(LEVEL)
    return log.choose(ChoiceId.CPU_LEVEL, needed, "each node is checked when the job starts", how)
