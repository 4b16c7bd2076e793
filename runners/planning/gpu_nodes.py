"""What GPUs the nodes of a job have, by Slurm, the site's profile or this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..core import gpus
from ..core.model import GpuVendor, Resources, SchedulerName
from ..core.remedy import Remedy, change
from ..core.site import NodeKind, Partition, Profile, Site
from ..schedulers import capabilities
from . import gpu_image, mig, partition, site_limits

AMD = re.compile(r"mi\d", re.IGNORECASE)  # AMD's types for data centres, MI50 to MI355X
VISIBLE = {
    GpuVendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    GpuVendor.AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}


@dataclass(frozen=True)
class GpuNodes:
    """The nodes that the job can get: the GPUs of each kind of them, and what that rests on.

    `have` are the words before a number, such as "nodes of gpu have". GPUs are a type, "" where
    none is told, and a number. The `constraint` is a feature that the nodes with GPUs have, and the
    others do not. With `instances_beside` they have MIG instances beside whole GPUs, which count.
    """

    have: str
    kinds: tuple[tuple[str, int], ...]
    evidence: str = ""
    constraint: str = ""
    instances_beside: bool = False

    @property
    def with_gpus(self) -> tuple[tuple[str, int], ...]:
        having = tuple(kind for kind in self.kinds if kind[1])
        return tuple(kind for kind in having if not gpus.MIG.search(kind[0])) or having

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many the nodes with GPUs have, kind by kind."""
        return tuple(number for _, number in self.with_gpus)

    @property
    def least_of_each_type(self) -> dict[str, int]:
        least: dict[str, int] = {}
        for kind, number in self.with_gpus:
            least[kind] = min(number, least.get(kind, number))
        return least


def of_job(
    site: Site, resources: Resources, scheduler: SchedulerName, vendor: GpuVendor
) -> GpuNodes | None:
    """Return the nodes that the job can get; None where nothing is known of them."""
    here = capabilities(scheduler)
    if here.within_job:
        number = site.allocated_gpus
        return GpuNodes(
            f"nodes of job {site.allocation} have", (("", number),), "scontrol show job"
        )
    if here.one_machine:
        return _this_machine(site, vendor)
    by_slurm = _by_slurm(site, resources, vendor) if here.tells_nodes else None
    by_profile = _by_profile(site.profile, resources, vendor) if site.profile else None
    known = [source for source in (by_slurm, by_profile) if source]
    return next((source for source in known if source.with_gpus), known[0] if known else None)


def _this_machine(site: Site, vendor: GpuVendor) -> GpuNodes:
    """Return this machine, with the GPUs that a variable leaves visible, else all."""
    for name in VISIBLE[vendor]:
        if name in site.environment:
            text = site.environment[name]
            visible = [gpu for gpu in text.split(",") if gpu.strip() not in ("", "-1")]
            return GpuNodes(f"{name} names", (("", len(visible)),), f"{name}={text}")
    return GpuNodes("this machine has", (("", site.gpus),))


def _by_slurm(site: Site, resources: Resources, vendor: GpuVendor) -> GpuNodes | None:
    """Return the nodes of the partition asked for, or of several, else of the default one."""
    chosen = [listed for listed in site.partitions if _is_chosen(listed, resources)]
    if not chosen:
        return None
    groups = [group for p in chosen for group in partition.groups(p, resources.constraint)]
    kinds = [_usable(group.gpus, vendor) for group in groups]
    names = ", ".join(listed.name for listed in chosen)
    features = [set(group.features) for group in groups]
    having = [feature_set for feature_set, (_, number) in zip(features, kinds) if number]
    others = [feature_set for feature_set, (_, number) in zip(features, kinds) if not number]
    apart = set.intersection(*having).difference(*others) if having and others else set()
    return GpuNodes(
        f"nodes of {names}{f' with {resources.constraint}' if resources.constraint else ''} have",
        tuple(kinds),
        "; ".join(f"sinfo: {listed.name} has {partition.listed(listed)}" for listed in chosen),
        "" if resources.constraint else min(apart, key=_says_gpu_first, default=""),
        mig.beside_whole(groups),
    )


def _says_gpu_first(feature: str) -> tuple[bool, str]:
    return "gpu" not in feature.lower(), feature


def _is_chosen(listed: Partition, resources: Resources) -> bool:
    return listed.name in (resources.partition or "").split(",") or (
        listed.default and not resources.partition
    )


def _usable(listed: Iterable[tuple[str, int]], vendor: GpuVendor) -> tuple[str, int]:
    """Return the type, "" for several, and the number of a node's GPUs that are of the vendor.

    Of MIG's instances those of one type, of which there are most.
    """
    fitting = [(kind, number) for kind, number in listed if number and _is_of(kind, vendor)]
    whole = [offer for offer in fitting if not gpus.MIG.search(offer[0])]
    if fitting and not whole:
        return max(fitting, key=lambda offer: offer[1])
    names = {kind for kind, _ in whole}
    return names.pop() if len(names) == 1 else "", sum(number for _, number in whole)


def _is_of(kind: str, vendor: GpuVendor) -> bool:
    """Whether GPUs of a type can be of the vendor; one that tells nothing can."""
    if vendor is GpuVendor.NVIDIA:
        return not AMD.match(kind)
    return not gpu_image.capability(kind)


def _by_profile(profile: Profile, resources: Resources, vendor: GpuVendor) -> GpuNodes | None:
    """Return the nodes by the site's profile, as far as it tells what they have."""
    kinds = site_limits.all_kinds(resources, profile)
    told = [kind for kind in kinds if kind.cpus or kind.gpus]
    if not told:
        return None
    return GpuNodes(
        f"nodes of {_name(told, profile)} have",
        tuple(_usable([(kind.gpu_type, kind.gpus)], vendor) for kind in told),
        site_limits.because(profile, f"nodes.{told[0].name}.gpus"),
    )


def _name(kinds: list[NodeKind], profile: Profile) -> str:
    return kinds[0].name if len(kinds) == 1 < len(profile.nodes) else profile.name


def others(
    site: Site, resources: Resources, scheduler: SchedulerName, vendor: GpuVendor
) -> Iterator[Remedy]:
    """Yield the options for nodes that have GPUs, where those of the job have none."""
    if capabilities(scheduler).tells_nodes:
        for listed in site.partitions:
            groups = [
                group for group in partition.groups(listed, None) if _usable(group.gpus, vendor)[1]
            ]
            fitting = set(groups) & set(partition.groups(listed, resources.constraint))
            gone = [] if fitting else ["constraint"]
            if groups and _is_chosen(listed, resources):
                yield change(leave_out=gone)
            elif groups:
                yield change(partition=listed.name, leave_out=gone)
    if site.profile and not site.partitions:
        setting = "constraint" if resources.constraint else "partition"
        for kind in site.profile.nodes:
            if _usable([(kind.gpu_type, kind.gpus)], vendor)[1]:
                yield change({setting: kind.name})
