"""GPUs that nobody asked for: a job with an image for GPUs requests those that its nodes have.

What was typed or configured about GPUs settles them; the plan says what it requests, and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..core import gpus
from ..core.model import GpuVendor, ImageInfo, Resources, RuntimeName, SchedulerName
from ..core.plan import ChoiceId
from ..core.remedy import Remedy, change
from ..core.site import NodeKind, Partition, Profile, Site
from ..schedulers import capabilities
from ..settings import gpu_request
from . import gpu_image, partition, site_limits, site_rules
from .case import Case, DecisionLog, RankResources

AMD = re.compile(r"mi\d", re.IGNORECASE)  # AMD's types for data centres, MI50 to MI355X
VISIBLE = {
    GpuVendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    GpuVendor.AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}


@dataclass(frozen=True)
class _Nodes:
    """The nodes that the job can get: the GPUs of each kind of them, and what that rests on.

    `have` are the words before a number, such as "nodes of gpu have". GPUs are a type, "" where
    none is told, and a number. The `constraint` is a feature that the nodes with GPUs have, and the
    others do not.
    """

    have: str
    kinds: tuple[tuple[str, int], ...]
    evidence: str = ""
    constraint: str = ""

    @property
    def with_gpus(self) -> tuple[tuple[str, int], ...]:
        return tuple(kind for kind in self.kinds if kind[1])


def of_image(image: ImageInfo) -> GpuVendor | None:
    """Return whose GPUs an image is for; None for CPUs, and where nothing is known of it."""
    if image.fact("rocm.version") not in ("", "none"):
        return GpuVendor.AMD
    return GpuVendor.NVIDIA if image.fact("cuda.version") not in ("", "none") else None


def choose(
    case: Case, resources: RankResources, scheduler: SchedulerName, log: DecisionLog
) -> RankResources:
    """Return the request with GPUs, where the image is for them and nobody said anything of them.

    Refuses nodes without GPUs where others have some.
    """
    vendor = of_image(case.image)
    if vendor is None or gpus.settled(case.spec, resources):
        return resources
    nodes = _nodes(case, resources, scheduler, vendor)
    if nodes and nodes.with_gpus:
        return _requested(case, resources, scheduler, nodes, log)
    others = list(_others(case.site, resources, scheduler, vendor)) if nodes else []
    without = f"{case.image.path.name} is for GPUs, and {nodes.have if nodes else 'it has'} none"
    if nodes and others and case.spec.runtime is not RuntimeName.NONE:
        log.refuse(without, nodes.evidence, *others, on_cpus(case, resources))
    elif others:  # what pip installs for PyTorch is for GPUs and CPUs alike
        log.warn(f"{without}: the job runs on CPUs", *others, on_cpus(case, resources))
    elif case.spec.runtime is not RuntimeName.NONE and not (case.spec.nv or case.spec.rocm):
        _warn(case, resources, scheduler, nodes, log)
    return resources


def on_cpus(case: Case, resources: Resources) -> Remedy:
    """Return the change by which a job with GPUs, typed or by default, gets none."""
    spec = case.spec
    switches = [name for name, given in (("nv", spec.nv), ("rocm", spec.rocm)) if given]
    used = [*gpus.settings_used(resources), *switches]
    if of_image(case.image) is None and used and not case.unasked & set(used):
        return change(leave_out=used)
    return change(gpus_per_node="0", leave_out=[name for name in used if name != "gpus-per-node"])


def _requested(
    case: Case, resources: RankResources, scheduler: SchedulerName, nodes: _Nodes, log: DecisionLog
) -> RankResources:
    """Return the request with the GPUs that the nodes have at least."""
    profile, kind = case.site.profile, ""
    if profile and profile.rules.gpu_type:
        least = _least_of_each_type(nodes)
        if len(least) > 1:
            _refuse_without_type(case, resources, scheduler, least, profile, log)
            return resources
        kind = next(iter(least))
    offered = min(number for _, number in nodes.with_gpus)
    number = _number(case, resources, scheduler, offered)
    request = gpus.request(kind, number)
    reason = f"{case.image.path.name} is for GPUs and {_have(nodes)}"
    reason += _why_fewer(case, resources, scheduler, number, offered)
    log.choose(ChoiceId.GPUS_PER_NODE, request, reason, nodes.evidence)
    new: Resources = replace(resources, gpus_per_node=request)
    if nodes.constraint:
        without = "the nodes without GPUs do not have it"
        new = replace(new, constraint=log.choose(ChoiceId.CONSTRAINT, nodes.constraint, without))
    new = gpu_request.with_ranks(new, case.spec.settings, bool(case.spec.trainer.command))
    return RankResources(site_rules.in_sites_gpu_form(new, profile, log) if profile else new)


def _have(nodes: _Nodes) -> str:
    numbers = [number for _, number in nodes.with_gpus]
    least, most = min(numbers), max(numbers)
    return f"{nodes.have} {least}" + (f" to {most}" if most > least else "")


def _why_fewer(
    case: Case, resources: RankResources, scheduler: SchedulerName, number: int, offered: int
) -> str:
    """Return what follows in the reason for fewer GPUs than a node has."""
    if number == offered:
        return ""
    if case.spec.trainer.command and _ranks_are_settled(case.site, resources, scheduler):
        return "; one for each rank"
    return f"; --gpus-per-node {offered} for all of a node"


def _ranks_are_settled(site: Site, resources: RankResources, scheduler: SchedulerName) -> bool:
    of_job = capabilities(scheduler).within_job and site.allocated_tasks
    return bool(resources.ntasks or resources.ntasks_per_node or of_job)


def _number(case: Case, resources: RankResources, scheduler: SchedulerName, offered: int) -> int:
    """Return how many GPUs of a node the job gets, of those that there are."""
    if not case.spec.trainer.command:  # a session, which has no ranks
        return 1
    if _ranks_are_settled(case.site, resources, scheduler):
        return min(resources.tasks_of_a_node, offered)
    return offered if _takes_whole_nodes(case, resources, scheduler) else 1


def _takes_whole_nodes(case: Case, resources: RankResources, scheduler: SchedulerName) -> bool:
    """Whether a job takes all GPUs of its nodes: one that asks for nodes, or can use any number.

    The GPUs of the surrounding job, and those that a variable names, are the job's own already.
    """
    if resources.nodes > 1:
        return True
    if case.one_of_many:
        return False
    named = any(each in case.site.environment for names in VISIBLE.values() for each in names)
    here = capabilities(scheduler)
    return (
        not case.is_unasked(ChoiceId.NODES)
        or case.spec.trainer.module is not None
        or here.within_job
        or (here.one_machine and named)
    )


def _least_of_each_type(nodes: _Nodes) -> dict[str, int]:
    least: dict[str, int] = {}
    for kind, number in nodes.with_gpus:
        least[kind] = min(number, least.get(kind, number))
    return least


def _refuse_without_type(
    case: Case,
    resources: RankResources,
    scheduler: SchedulerName,
    least: dict[str, int],
    profile: Profile,
    log: DecisionLog,
) -> None:
    forms = (
        gpus.request(kind, _number(case, resources, scheduler, number))
        for kind, number in least.items()
    )
    what = f"{case.image.path.name} is for GPUs, and {profile.name} requires their type"
    evidence = site_limits.because(profile, "rules.gpu_type")
    log.refuse(what, evidence, *(site_limits.request(profile, form) for form in forms))


def _nodes(
    case: Case, resources: RankResources, scheduler: SchedulerName, vendor: GpuVendor
) -> _Nodes | None:
    """Return the nodes that the job can get; None where nothing is known of them."""
    site, here = case.site, capabilities(scheduler)
    if here.within_job:
        number = site.allocated_gpus
        return _Nodes(f"nodes of job {site.allocation} have", (("", number),), "scontrol show job")
    if here.one_machine:
        return _this_machine(site, vendor)
    known = [
        each
        for each in (
            _by_slurm(site, resources, vendor) if here.tells_nodes else None,
            _by_profile(site.profile, resources, vendor) if site.profile else None,
        )
        if each
    ]
    return next((each for each in known if each.with_gpus), next(iter(known), None))


def _this_machine(site: Site, vendor: GpuVendor) -> _Nodes:
    """Return this machine, with the GPUs that a variable leaves visible, else all."""
    for name in VISIBLE[vendor]:
        if name in site.environment:
            text = site.environment[name]
            visible = [each for each in text.split(",") if each.strip() not in ("", "-1")]
            return _Nodes(f"{name} names", (("", len(visible)),), f"{name}={text}")
    return _Nodes("this machine has", (("", site.gpus),))


def _by_slurm(site: Site, resources: RankResources, vendor: GpuVendor) -> _Nodes | None:
    """Return the nodes of the partition asked for, or of several, else of the default one."""
    chosen = [each for each in site.partitions if _is_chosen(each, resources)]
    if not chosen:
        return None
    groups = [group for p in chosen for group in partition.groups(p, resources.constraint)]
    kinds = [_usable(group.gpus, vendor) for group in groups]
    names = ", ".join(each.name for each in chosen)
    features = [set(group.features) for group in groups]
    having = [each for each, (_, number) in zip(features, kinds) if number]
    others = [each for each, (_, number) in zip(features, kinds) if not number]
    apart = set.intersection(*having).difference(*others) if having and others else set()
    return _Nodes(
        f"nodes of {names}{f' with {resources.constraint}' if resources.constraint else ''} have",
        tuple(kinds),
        "; ".join(f"sinfo: {each.name} has {partition.listed(each)}" for each in chosen),
        "" if resources.constraint else min(apart, key=_says_gpu_first, default=""),
    )


def _says_gpu_first(feature: str) -> tuple[bool, str]:
    return "gpu" not in feature.lower(), feature


def _is_chosen(each: Partition, resources: RankResources) -> bool:
    return each.name in (resources.partition or "").split(",") or (
        each.default and not resources.partition
    )


def _usable(listed: Iterable[tuple[str, int]], vendor: GpuVendor) -> tuple[str, int]:
    """Return the type, "" for several, and the number of a node's GPUs that are of the vendor."""
    fitting = [(kind, number) for kind, number in listed if number and _is_of(kind, vendor)]
    names = {kind for kind, _ in fitting}
    return names.pop() if len(names) == 1 else "", sum(number for _, number in fitting)


def _is_of(kind: str, vendor: GpuVendor) -> bool:
    """Whether GPUs of a type can be of the vendor; one that tells nothing can."""
    if vendor is GpuVendor.NVIDIA:
        return not AMD.match(kind)
    return not gpu_image.capability(kind)


def _by_profile(profile: Profile, resources: RankResources, vendor: GpuVendor) -> _Nodes | None:
    """Return the nodes by the site's profile, as far as it tells what they have."""
    kinds = site_limits.all_kinds(resources, profile)
    told = [kind for kind in kinds if kind.cpus or kind.gpus]
    if not told:
        return None
    return _Nodes(
        f"nodes of {_name(told, profile)} have",
        tuple(_usable([(kind.gpu_type, kind.gpus)], vendor) for kind in told),
        site_limits.because(profile, f"nodes.{told[0].name}.gpus"),
    )


def _name(kinds: list[NodeKind], profile: Profile) -> str:
    return kinds[0].name if len(kinds) == 1 < len(profile.nodes) else profile.name


def _others(
    site: Site, resources: RankResources, scheduler: SchedulerName, vendor: GpuVendor
) -> Iterator[Remedy]:
    """Yield the options for nodes that have GPUs, where those of the job have none."""
    if capabilities(scheduler).tells_nodes:
        for each in site.partitions:
            groups = [
                group for group in partition.groups(each, None) if _usable(group.gpus, vendor)[1]
            ]
            fitting = set(groups) & set(partition.groups(each, resources.constraint))
            gone = [] if fitting else ["constraint"]
            if groups and _is_chosen(each, resources):
                yield change(leave_out=gone)
            elif groups:
                yield change(partition=each.name, leave_out=gone)
    if site.profile and not site.partitions:
        setting = "constraint" if resources.constraint else "partition"
        for kind in site.profile.nodes:
            if _usable([(kind.gpu_type, kind.gpus)], vendor)[1]:
                yield change({setting: kind.name})


def _warn(
    case: Case,
    resources: RankResources,
    scheduler: SchedulerName,
    nodes: _Nodes | None,
    log: DecisionLog,
) -> None:
    """Warn of a job on CPUs with an image for GPUs, where nobody lists any."""
    here, name = capabilities(scheduler), case.image.path.name
    options = [on_cpus(case, resources)]
    if nodes is None:
        what = f"{name} is for GPUs, and what GPUs the nodes have is not known"
        options.insert(0, change(gpus_per_node="1"))
    elif not here.queue:
        what = f"{name} is for GPUs, and {nodes.have} none"
    else:  # some sites give GPUs without counting them
        what = f"{name} is for GPUs, and {here.title} lists none"
        amd = of_image(case.image) is GpuVendor.AMD
        options.insert(0, change(rocm=True) if amd else change(nv=True))
    log.warn(f"{what}: the job runs on CPUs", *options)
