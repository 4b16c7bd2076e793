"""The job's partition: whether it has enough nodes and time, and its nodes enough CPUs."""

from __future__ import annotations

from ..core.model import Resources
from ..core.remedy import change
from ..core.site import Partition
from ..schedulers.base import limit_seconds
from .case import Case, DecisionLog


def of(case: Case) -> Partition | None:
    """Return what is known of the job's partition: the one asked for, else the default."""
    asked = case.resources.partition
    for one in case.site.partitions:
        if one.name == asked or (asked is None and one.default):
            return one
    return None


def check(case: Case, log: DecisionLog) -> None:
    """Refuse what sbatch would, or what would wait for ever."""
    there = of(case)
    if there is None:
        _unknown(case, log)
        return
    _nodes(case, there, log)
    _time(case, there, log)
    _cpus(case.resources, there, log)


def _unknown(case: Case, log: DecisionLog) -> None:
    """Warn of a partition that sinfo does not show; those that are hidden it does not."""
    requested, names = case.resources.partition, [p.name for p in case.site.partitions]
    if requested and names and not set(requested.split(",")) <= set(names):
        import difflib  # for a mistake only

        near = difflib.get_close_matches(requested, names, n=1)
        offers = [change(partition=name) for name in near]
        log.warn(f"sinfo shows no partition {requested}, but {', '.join(names)}", *offers)


def _nodes(case: Case, partition: Partition, log: DecisionLog) -> None:
    resources = case.resources
    if resources.nodes <= partition.nodes:
        return
    larger = [p.name for p in case.site.partitions if p.nodes >= resources.nodes]
    log.refuse(
        f"partition {partition.name} has {partition.nodes} nodes, fewer than --nodes "
        f"{resources.nodes}",
        f"sinfo: {partition.nodes} nodes",
        *(change(partition=name) for name in larger),
        change(nodes=partition.nodes),
    )


def _time(case: Case, partition: Partition, log: DecisionLog) -> None:
    """Refuse more time than there is; by default (EnforcePartLimits=NO) Slurm takes such a job.

    A QOS may give more than the partition does.
    """
    resources = case.resources
    if resources.qos or _enough(partition, resources):
        return
    larger = [
        p for p in case.site.partitions if p.nodes >= resources.nodes and _enough(p, resources)
    ]
    log.refuse(
        f"partition {partition.name} has a time limit of {partition.time_limit}, less than --time "
        f"{resources.time}",
        f"sinfo: time limit {partition.time_limit}",
        *(change(partition=one.name) for one in larger),
        change(time=partition.time_limit),
    )


def _enough(partition: Partition, resources: Resources) -> bool:
    wanted, most = limit_seconds(resources.time or ""), limit_seconds(partition.time_limit)
    return wanted is None or most is None or wanted <= most


def _cpus(resources: Resources, partition: Partition, log: DecisionLog) -> None:
    each = resources.cpus_per_task or 1
    tasks = resources.tasks_of_a_node
    if not partition.cpus or tasks * each <= partition.cpus or resources.overcommit:
        return
    nodes = -(-resources.tasks * each // partition.cpus)
    remedies = [change(cpus_per_task=1) if each > 1 else change(overcommit=True)]
    if resources.ntasks and nodes <= partition.nodes:
        remedies.insert(0, change(nodes=nodes))
    log.refuse(
        f"{tasks} ranks with {each} CPUs each do not fit on a node of partition {partition.name}",
        f"sinfo: its nodes have {partition.cpus} CPUs",
        *remedies,
    )
