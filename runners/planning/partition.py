"""The job's partition: whether it has enough nodes and time, and its nodes the CPUs and GPUs."""

from __future__ import annotations

from ..core import gpus
from ..core.remedy import Remedy, change
from ..core.site import Partition, Site
from ..core.text import count
from ..schedulers.base import limit_seconds
from .case import DecisionLog, JobResources, RankResources


def of(site: Site, resources: RankResources) -> Partition | None:
    """Return what is known of the job's partition: the one asked for, else the default."""
    name = resources.partition
    for one in site.partitions:
        if one.name == name or (name is None and one.default):
            return one
    return None


def check(site: Site, resources: JobResources, log: DecisionLog) -> None:
    """Refuse what sbatch would, or what would wait for ever."""
    chosen = of(site, resources)
    if chosen is None:
        return
    _nodes(site, resources, chosen, log)
    _time(site, resources, chosen, log)
    _cpus(resources, chosen, log)


def _nodes(site: Site, resources: JobResources, partition: Partition, log: DecisionLog) -> None:
    if resources.nodes <= partition.nodes:
        return
    larger = [p.name for p in site.partitions if p.nodes >= resources.nodes]
    log.refuse(
        f"partition {partition.name} has {partition.nodes} nodes, fewer than --nodes "
        f"{resources.nodes}",
        f"sinfo: {partition.nodes} nodes",
        *(change(partition=name) for name in larger),
        change(nodes=partition.nodes),
    )


def _time(site: Site, resources: JobResources, partition: Partition, log: DecisionLog) -> None:
    """Refuse more time than there is; by default (EnforcePartLimits=NO) Slurm takes such a job.

    A QOS may give more than the partition does.
    """
    if resources.qos or _enough(partition, resources):
        return
    larger = [p for p in site.partitions if p.nodes >= resources.nodes and _enough(p, resources)]
    log.refuse(
        f"partition {partition.name} has a time limit of {partition.time_limit}, less than --time "
        f"{resources.time}",
        f"sinfo: time limit {partition.time_limit}",
        *(change(partition=one.name) for one in larger),
        change(time=partition.time_limit),
    )


def _enough(partition: Partition, resources: JobResources) -> bool:
    wanted, most = limit_seconds(resources.time or ""), limit_seconds(partition.time_limit)
    return wanted is None or most is None or wanted <= most


def _cpus(resources: JobResources, partition: Partition, log: DecisionLog) -> None:
    tasks, each = resources.tasks_of_a_node, resources.cpus_per_task or 1
    if not partition.cpus or tasks * each <= partition.cpus or resources.overcommit:
        return
    nodes = -(-resources.tasks * each // partition.cpus)
    fitting = partition.cpus // tasks
    remedies = [change(cpus_per_task=fitting) if fitting else change(overcommit=True)]
    if not fitting:
        remedies.insert(0, change(ntasks_per_node=partition.cpus, leave_out=["ntasks"]))
    if resources.ntasks and nodes <= partition.nodes:
        remedies.insert(0, change(nodes=nodes))
    log.refuse(
        f"{count(tasks, 'rank')} with {count(each, 'CPU')} each: too many for a node of "
        f"partition {partition.name}",
        f"sinfo: its nodes have {partition.cpus} CPUs",
        *remedies,
    )


def check_gpus(
    wanted: tuple[str, int], site: Site, resources: RankResources, log: DecisionLog
) -> None:
    """Refuse GPUs, a type and a number on each node, that the partition's nodes do not have."""
    chosen = of(site, resources)
    if chosen is None:
        return
    kind, number = wanted
    if not chosen.gpus:
        what = f"partition {chosen.name} has no GPUs"
    elif kind and kind.lower() not in {name.lower() for name, _ in chosen.gpus}:
        what = f"partition {chosen.name} has no GPUs of type {kind}"
    elif not _has(chosen, kind, number):
        what = f"no node of partition {chosen.name} has {number} GPUs"
    else:
        return
    listed = ", ".join(f"{n} x {name or 'GPU'}" for name, n in chosen.gpus) or "no GPUs"
    others = [p.name for p in site.partitions if _has(p, kind, number)]
    remedies = [change(partition=name) for name in others]
    remedies += [] if others else _what_there_is(chosen)
    log.refuse(what, f"sinfo: {chosen.name} has {listed}", *remedies)


def _what_there_is(partition: Partition) -> list[Remedy]:
    """Return requests for all GPUs of a node of the partition, in whatever form they were typed."""
    others = ("gpus", "gpus-per-task", "gres")
    typed = [gpus.request(kind, number) for kind, number in partition.gpus]
    return [change(gpus_per_node=each, leave_out=others) for each in typed]


def _has(partition: Partition, kind: str, number: int) -> bool:
    """Whether a node has `number` of the kind; without a kind those of one node add up."""
    fitting = [n for name, n in partition.gpus if not kind or name.lower() == kind.lower()]
    return bool(fitting) and number <= (max(fitting) if kind else sum(fitting))
