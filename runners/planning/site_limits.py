"""Checks a request against the limits of a site's nodes, network and queues. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..core import gpus
from ..core.model import JobSpec, Resources
from ..core.remedy import Remedy, change, command
from ..core.site import GpuRequest, NodeKind, Profile
from ..schedulers import capabilities
from ..schedulers.base import limit_seconds
from .case import DecisionLog, JobResources


def node_kinds(resources: Resources, profile: Profile) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes that the job can get: by type of GPU, partition or constraint.

    Empty when the profile does not know. A site with nodes of one kind has no choice.
    """
    if len(profile.nodes) == 1:
        return profile.nodes
    typed_gpus = gpus.on_a_node(resources)
    wanted = typed_gpus[0].lower() if typed_gpus else ""  # Slurm ignores the case
    typed = [kind for kind in profile.nodes if wanted and kind.gpu_type.lower() == wanted]
    named = [kind for kind in _named(resources, profile) if not typed or kind in typed]
    return tuple(named or typed)


def _named(resources: Resources, profile: Profile) -> list[NodeKind]:
    """Return the kinds of nodes that a partition or a constraint names."""
    words = re.split(r"[&|,*()\[\]]", resources.constraint or "")
    words += (resources.partition or "").split(",")  # of several Slurm takes one
    return [kind for kind in profile.nodes if kind.name in words]


def all_kinds(resources: Resources, profile: Profile) -> list[NodeKind]:
    """Return the kinds of nodes that the job can get, whatever type of GPU it names."""
    every = list(profile.nodes) if len(profile.nodes) == 1 or profile.rules.gpu_type else []
    return _named(resources, profile) or every


def because(profile: Profile, key: str, reason: str = "") -> str:
    """Return a rule's reason and where it comes from, with the date of reading."""
    below = (source for name, source in profile.sources.items() if f"{name}.".startswith(f"{key}."))
    source = next(below, None)
    origin = f"{source.text}, {source.date}" if source else f"the profile of {profile.name}"
    return f"{reason} ({origin})" if reason else origin


def check(
    spec: JobSpec, resources: JobResources, profile: Profile, remote: bool, log: DecisionLog
) -> None:
    """Refuse what the nodes or queues of the site cannot give; warn of what is not as expected.

    The scheduler of a `remote` site cannot be asked: there the profile alone knows its nodes.
    """
    kinds, asks_scheduler = node_kinds(resources, profile), _scheduler_knows(profile) and not remote
    _form(resources, profile, log)
    _gpus(resources, profile, kinds, asks_scheduler, log)
    if not asks_scheduler:
        _type(resources, profile, log)
        _cpus(resources, kinds, profile, log)
    _time(resources, profile, log)
    _nodes(resources, profile, log)
    _architecture(resources, spec.image.architecture, profile, log)
    _warn(resources, profile, kinds, log)
    if not gpus.settled(spec, resources) and kinds and all(kind.gpus for kind in kinds):
        option = request(profile, str(kinds[0].gpus))
        log.warn(
            "gpus-not-requested", f"{_name(kinds)} have GPUs, but the job requests none", option
        )


def _form(resources: Resources, profile: Profile, log: DecisionLog) -> None:
    requested = gpus.on_a_node(resources)
    if requested and not requested[0] and profile.rules.gpu_type:
        counts = {kind.gpu_type: kind.gpus for kind in profile.nodes if kind.gpu_type}
        forms = [f"{kind}:{min(requested[1], count)}" for kind, count in counts.items()]
        what = f"{profile.name} requires the type of the GPUs"
        remedies = [request(profile, form) for form in forms]
        log.refuse("site-gpu-type-required", what, because(profile, "rules.gpu_type"), *remedies)


def request(profile: Profile, count: str) -> Remedy:
    """Return how the site is asked for `count`, [TYPE:]N, GPUs on each node."""
    if profile.rules.gpu_request is GpuRequest.GRES:
        return change(gres=f"gpu:{count}")
    return change(gpus_per_node=count)


def _gpus(
    resources: Resources,
    profile: Profile,
    kinds: tuple[NodeKind, ...],
    asks_scheduler: bool,
    log: DecisionLog,
) -> None:
    """Refuse GPUs that no node has, and parts of nodes where only whole ones are given."""
    requested = gpus.on_a_node(resources)
    told = [kind for kind in kinds if kind.cpus or kind.gpus]
    if not requested or not told:
        return
    counts = sorted({kind.gpus for kind in told})
    evidence = because(profile, f"nodes.{kinds[0].name}.gpus")
    whole = [request(profile, gpus.request(requested[0], count)) for count in counts if count]
    parts = profile.rules.whole_nodes
    if requested[1] > counts[-1] and not asks_scheduler:
        what = f"{requested[1]} GPUs per node, but {_name(kinds)} have {_or(counts)}"
        log.refuse("site-gpus-per-node", what, evidence, *whole)
    elif resources.nodes == 1 or requested[1] in counts:
        return
    elif "*" in parts or resources.partition in parts:
        what = f"a job over several nodes of {profile.name} must request all GPUs of each"
        what += f": {_or(counts)}, not {requested[1]}"
        log.refuse(
            "site-whole-nodes", what, because(profile, "rules.whole_nodes"), *whole, change(nodes=1)
        )


def _type(resources: Resources, profile: Profile, log: DecisionLog) -> None:
    """Refuse a type of GPUs that the nodes of the job do not have, as far as all types are told."""
    kinds = all_kinds(resources, profile)
    types = {kind.gpu_type.lower(): kind for kind in kinds}
    wanted, number = gpus.on_a_node(resources) or ("", 0)
    is_part = gpus.MIG.search(wanted)  # of which no profile tells
    if not wanted or is_part or not types or "" in types or wanted.lower() in types:
        return
    setting = "constraint" if resources.constraint else "partition"
    others = [kind.name for kind in profile.nodes if kind.gpu_type.lower() == wanted.lower()]
    here = [gpus.request(kind.gpu_type, min(number, kind.gpus)) for kind in types.values()]
    remedies = [change({setting: name}) for name in others]
    there = _or([kind.gpu_type for kind in types.values()])
    what = f"{_name(kinds)} have {there}, not {wanted}"
    evidence = because(profile, f"nodes.{kinds[0].name}.gpu_type")
    log.refuse(
        "site-gpu-type", what, evidence, *remedies, *(request(profile, count) for count in here)
    )


def _scheduler_knows(profile: Profile) -> bool:
    """Whether the scheduler says itself what its nodes have; the solver asks it."""
    return profile.scheduler is not None and capabilities(profile.scheduler).tells_nodes


def _cpus(
    resources: Resources, kinds: tuple[NodeKind, ...], profile: Profile, log: DecisionLog
) -> None:
    most = max((kind.cpus for kind in kinds), default=0)
    tasks, cpus = resources.tasks_of_a_node, resources.cpus_per_task or 1
    if not most or tasks * cpus <= most or resources.overcommit:
        return
    what = f"{tasks} ranks on a node with {cpus} CPUs each, but {_name(kinds)} have {most} CPUs"
    fitting = most // tasks
    remedy = change(cpus_per_task=fitting) if fitting else change(ntasks_per_node=most)
    log.refuse("site-cpus", what, because(profile, f"nodes.{kinds[0].name}.cpus"), remedy)


def architectures(resources: Resources, profile: Profile) -> set[str]:
    """Return the architectures of the nodes that the job can get, "" where one is not told."""
    return {kind.architecture for kind in node_kinds(resources, profile)}


def _architecture(resources: Resources, image: str, profile: Profile, log: DecisionLog) -> None:
    """Refuse an image that cannot run on all nodes that the job may get."""
    kinds, of_nodes = node_kinds(resources, profile), architectures(resources, profile)
    if len(of_nodes - {""}) > 1:
        listed = ", ".join(f"{kind.name} {kind.architecture}" for kind in kinds)
        what = "the job may get nodes of several architectures, but an image is for one"
        setting = "constraint" if resources.constraint else "partition"
        best_first = sorted(kinds, key=lambda kind: kind.architecture != image)
        log.refuse(
            "architecture-mixed",
            what,
            listed,
            *(change({setting: kind.name}) for kind in best_first),
        )
        return
    if not image or not of_nodes or of_nodes & {image, ""}:
        return
    others = [kind.name for kind in profile.nodes if kind.architecture == image and kind.gpus]
    by_partition = resources.partition == kinds[0].name
    remedies = [change(partition=name) for name in others[:1] if by_partition]
    what = f"the image is for {image}, but {_name(kinds)} are {' and '.join(sorted(of_nodes))}"
    evidence = because(profile, f"nodes.{kinds[0].name}.architecture")
    pull = command("runner", "pull", "--arch", min(of_nodes), "IMAGE")
    log.refuse("architecture-of-nodes", what, evidence, *remedies, pull)


def _limited(resources: Resources, limits: Collection[str]) -> str:
    """Return the name of the limit that holds for a job: its QOS, its partition, "*" or ""."""
    names = (resources.qos, resources.partition, "*")
    return next((name for name in names if name and name in limits), "")


def _nodes(resources: Resources, profile: Profile, log: DecisionLog) -> None:
    nodes, rules = resources.nodes, profile.rules
    least, most = (_limited(resources, limits) for limits in (rules.min_nodes, rules.max_nodes))
    if nodes < rules.min_nodes.get(least, 1):
        word, key, name, limit = "fewer", "min_nodes", least, rules.min_nodes[least]
    elif nodes > rules.max_nodes.get(most, nodes):
        word, key, name, limit = "more", "max_nodes", most, rules.max_nodes[most]
    else:
        return
    what = f"--nodes {nodes} is {word} than {profile.name} allows in {name}: {limit}"
    fitting = [
        change(partition=partition)
        for partition, highest in rules.max_nodes.items()
        if rules.min_nodes.get(partition, 1) <= nodes <= highest
    ]
    log.refuse(
        "site-nodes", what, because(profile, f"rules.{key}.{name}"), *fitting, change(nodes=limit)
    )


def _time(resources: Resources, profile: Profile, log: DecisionLog) -> None:
    limits = profile.rules.max_time
    name = _limited(resources, limits)
    most, wanted = limit_seconds(limits.get(name, "")), limit_seconds(resources.time or "")
    if not resources.time or most is None or (wanted is not None and wanted <= most):
        return
    where = "" if name == "*" else f" in {name}"
    what = f"--time {resources.time} is more than {profile.name} allows{where}: {limits[name]}"
    log.refuse(
        "site-time", what, because(profile, f"rules.max_time.{name}"), change(time=limits[name])
    )


def _warn(
    resources: Resources, profile: Profile, kinds: tuple[NodeKind, ...], log: DecisionLog
) -> None:
    """Warn of what works, and not as the user may expect."""
    requested = gpus.on_a_node(resources)
    kind = requested[0] if requested else ""
    known = sorted({node.gpu_type for node in profile.nodes if node.gpu_type})
    part = gpus.MIG.search(kind)  # of which no profile tells
    if kind and not part and known and kind.lower() not in {gpu_type.lower() for gpu_type in known}:
        log.warn(
            "site-gpu-type-unknown",
            f"{profile.name} is not known to have {kind}, but {', '.join(known)}",
        )
    slow = {gpu_type.lower() for gpu_type in profile.rules.no_fast_network}
    without = next((kind.gpu_type for kind in kinds if kind.gpu_type.lower() in slow), "")
    if without and resources.nodes > 1:
        reason = because(profile, "rules.no_fast_network")
        log.warn(
            "no-fast-network",
            f"nodes with {without} have no InfiniBand: gradients go over Ethernet ({reason})",
        )


def _name(kinds: Sequence[NodeKind]) -> str:
    return f"the nodes of {kinds[0].name}"


def _or(counts: Sequence[object]) -> str:
    return " or ".join(str(count) for count in counts)
