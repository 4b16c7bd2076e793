"""The job's partition: does it have so many nodes and so much time, and its nodes so many CPUs."""

from __future__ import annotations

from ..core.model import Partition, Resources, Site
from ..schedulers import time_limits
from .choices import Notes


def of(resources: Resources, site: Site) -> Partition | None:
    """Return what is known of the job's partition: the one asked for, else the default."""
    for one in site.partitions:
        if one.name == resources.partition or (resources.partition is None and one.default):
            return one
    return None


def check(resources: Resources, site: Site, notes: Notes) -> None:
    """Refuse what sbatch would, or what would wait for ever."""
    there = of(resources, site)
    if there is None:
        return
    _nodes(resources, there, site, notes)
    _time(resources, there, site, notes)
    _cpus(resources, there, notes)


def _nodes(resources: Resources, there: Partition, site: Site, notes: Notes) -> None:
    if resources.nodes <= there.nodes:
        return
    larger = [p.name for p in site.partitions if p.nodes >= resources.nodes]
    notes.refuse(
        f"partition {there.name} has {there.nodes} nodes, fewer than --nodes {resources.nodes}",
        f"sinfo: {there.nodes} nodes",
        *(f"--partition {name}" for name in larger),
        f"--nodes {there.nodes}",
    )


def _time(resources: Resources, there: Partition, site: Site, notes: Notes) -> None:
    """Refuse more time than there is; by default (EnforcePartLimits=NO) Slurm takes such a job.

    A QOS may give more than the partition does.
    """
    if resources.qos or _enough(there, resources):
        return
    larger = [p for p in site.partitions if p.nodes >= resources.nodes and _enough(p, resources)]
    notes.refuse(
        f"partition {there.name} gives {there.time_limit}, less than --time {resources.time}",
        f"sinfo: time limit {there.time_limit}",
        *(f"--partition {one.name}" for one in larger),
        f"--time {there.time_limit}",
    )


def _enough(there: Partition, resources: Resources) -> bool:
    wanted, most = time_limits.seconds(resources.time or ""), time_limits.seconds(there.time_limit)
    return wanted is None or most is None or wanted <= most


def _cpus(resources: Resources, there: Partition, notes: Notes) -> None:
    each = resources.cpus_per_task or 1
    tasks = -(-resources.tasks // resources.nodes)
    if not there.cpus or tasks * each <= there.cpus or resources.overcommit:
        return
    nodes = -(-resources.tasks * each // there.cpus)
    remedies = ["--cpus-per-task 1"] if each > 1 else ["--overcommit"]
    if resources.ntasks and nodes <= there.nodes:
        remedies.insert(0, f"--nodes {nodes}")
    notes.refuse(
        f"{tasks} ranks with {each} CPUs each do not fit on a node of partition {there.name}",
        f"sinfo: its nodes have {there.cpus} CPUs",
        *remedies,
    )
