"""The job's partition: whether it has enough nodes and time, and its nodes the CPUs and GPUs."""

from __future__ import annotations

import re

from ..core import gpus
from ..core.remedy import Remedy, change
from ..core.site import NodeGroup, Partition, Site
from ..core.text import count
from ..schedulers.base import limit_seconds
from .case import DecisionLog, JobResources, RankResources


def of(site: Site, resources: RankResources) -> Partition | None:
    """Return what is known of the job's partition: the one asked for, else the default."""
    name = resources.partition
    for partition in site.partitions:
        if partition.name == name or (name is None and partition.default):
            return partition
    return None


def groups(partition: Partition, constraint: str | None) -> tuple[NodeGroup, ...]:
    """Return the nodes that have the features of a constraint, those that are alike together.

    Where nothing is known of the nodes, each kind of GPU is taken to be on nodes of its own.
    """
    each_kind = tuple(
        NodeGroup(partition.nodes, (gpus_of_kind,)) for gpus_of_kind in partition.gpus
    )
    known = partition.groups or each_kind or (NodeGroup(partition.nodes),)
    if not constraint or not any(group.features for group in known):
        return known
    return tuple(group for group in known if _meets(group.features, constraint))


def _meets(features: tuple[str, ...], constraint: str) -> bool:
    """Whether a node with these features can be one of the job's, by sbatch's --constraint."""
    text = re.sub(r"\*\d+", "", constraint)
    if re.search(r"[][()]", text):  # of several sets: nodes of each
        return any(word in features for word in re.split(r"[][()&|,]+", text))
    alternatives = (alternative.replace(",", "&").split("&") for alternative in text.split("|"))
    return any(set(words) <= set(features) for words in alternatives)


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
        "partition-nodes",
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
        "partition-time",
        f"partition {partition.name} has a time limit of {partition.time_limit}, less than --time "
        f"{resources.time}",
        f"sinfo: time limit {partition.time_limit}",
        *(change(partition=wider.name) for wider in larger),
        change(time=partition.time_limit),
    )


def _enough(partition: Partition, resources: JobResources) -> bool:
    wanted, most = limit_seconds(resources.time or ""), limit_seconds(partition.time_limit)
    return wanted is None or most is None or wanted <= most


def _cpus(resources: JobResources, partition: Partition, log: DecisionLog) -> None:
    tasks, cpus_per_task = resources.tasks_of_a_node, resources.cpus_per_task or 1
    cpus = _most_cpus(resources, partition)
    if not cpus or tasks * cpus_per_task <= cpus or resources.overcommit:
        return
    nodes = -(-resources.tasks * cpus_per_task // cpus)
    fitting = cpus // tasks
    remedies = [change(cpus_per_task=fitting) if fitting else change(overcommit=True)]
    if not fitting:
        remedies.insert(0, change(ntasks_per_node=cpus, leave_out=["ntasks"]))
    if resources.ntasks and nodes <= partition.nodes:
        remedies.insert(0, change(nodes=nodes))
    log.refuse(
        "partition-cpus",
        f"{count(tasks, 'rank')} with {count(cpus_per_task, 'CPU')} each: too many for a node of "
        f"partition {partition.name}",
        f"sinfo: its nodes have {cpus} CPUs",
        *remedies,
    )


def _most_cpus(resources: JobResources, partition: Partition) -> int:
    """Return the CPUs of the largest node that the job can get, of those with its GPUs."""
    kind, number = gpus.on_a_node(resources) or ("", 0)
    nodes = groups(partition, resources.constraint)
    return max((group.cpus for group in nodes if group.count(kind) >= number), default=0) or (
        partition.cpus
    )


def check_gpus(
    wanted: tuple[str, int], site: Site, resources: RankResources, log: DecisionLog
) -> None:
    """Refuse GPUs, a type and a number on each node, that the partition's nodes do not have."""
    chosen = of(site, resources)
    if chosen is None:
        return
    kind, number = wanted
    nodes = _with(chosen, kind, number)
    if not chosen.gpus:
        what = f"partition {chosen.name} has no GPUs"
    elif not _with(chosen, kind, 1):
        what = f"partition {chosen.name} has no GPUs of type {kind}"
    elif not nodes:
        what = f"no node of partition {chosen.name} has {number} GPUs"
    elif nodes < resources.nodes <= chosen.nodes:
        what = f"partition {chosen.name} has {count(nodes, 'node')} with {count(number, 'GPU')}, "
        what += f"fewer than --nodes {resources.nodes}"
    else:
        return
    enough = resources.nodes if nodes else 1
    others = [p.name for p in site.partitions if _with(p, kind, number) >= enough]
    remedies = [change(partition=name) for name in others]
    remedies += [change(nodes=nodes)] if nodes else [] if others else _what_there_is(chosen)
    log.refuse("partition-gpus", what, f"sinfo: {chosen.name} has {listed(chosen)}", *remedies)


def listed(partition: Partition) -> str:
    """Return the GPUs of a partition's nodes in words."""
    return ", ".join(f"{n} x {name or 'GPU'}" for name, n in partition.gpus) or "no GPUs"


def _what_there_is(partition: Partition) -> list[Remedy]:
    """Return requests for all GPUs of a node of the partition, in whatever form they were typed."""
    others = ("gpus", "gpus-per-task", "gres")
    typed = [gpus.request(kind, number) for kind, number in partition.gpus]
    return [change(gpus_per_node=request, leave_out=others) for request in typed]


def _with(partition: Partition, kind: str, number: int) -> int:
    """Return how many nodes have `number` GPUs of a type, "" for any."""
    return sum(group.nodes for group in groups(partition, None) if group.count(kind) >= number)
