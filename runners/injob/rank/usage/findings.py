"""What a job left unused, or nearly ran out of: values with the option that fixes it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .job import NodeUse

IDLE_GPU, IDLE_CPUS, MEMORY = "idle-gpu", "idle-cpus", "memory-near-limit"
LEAST_SECONDS = 60.0  # a shorter job is mostly its own start
IDLE = 0.1  # of the time with a kernel running
UNUSED_BYTES = 1 << 30  # a CUDA context alone has less
UNUSED_CPUS, LEAST_CPUS = 0.25, 4  # share of a rank's CPUs, of which it has so many
NEAR = 0.9  # of the limit
SPARE = 1.25  # what is asked for, relative to what was used
GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One of the ids above: the first node where it was seen, `numbers` of that node, on how many
    nodes it was seen, and the options of the launch that fix it, where there are any.
    """

    id: str
    node: str
    numbers: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    nodes: int = 1


def of(nodes: Sequence[NodeUse]) -> list[Finding]:
    """Return the findings, each once, with the number of nodes."""
    seen: dict[str, list[Finding]] = {}
    for one in nodes:
        for finding in (*_memory(one), *_gpus(one), *_cpus(one)):
            seen.setdefault(finding.id, []).append(finding)
    return [
        Finding(each[0].id, each[0].node, each[0].numbers, each[0].options, len(each))
        for each in seen.values()
    ]


def _memory(node: NodeUse) -> Iterator[Finding]:
    in_group = node.memory_limit_of == "cgroup"
    used = node.memory_group_peak_bytes if in_group else node.memory_peak_bytes
    limit = node.memory_limit_bytes
    if used is None or not limit or used < NEAR * limit:
        return
    numbers = {"used_bytes": used, "limit_bytes": limit, "limit_of": node.memory_limit_of}
    options = {"mem": f"{math.ceil(SPARE * limit / GIGABYTE)}G"}
    yield Finding(MEMORY, node.host, numbers, {} if node.memory_limit_of == "node" else options)


def _gpus(node: NodeUse) -> Iterator[Finding]:
    """Yield the GPUs that computed little: because nobody uses them, or because they wait."""
    gpus = list((node.gpus or {}).values())
    idle = [one for one in gpus if one["use_mean"] is not None and one["use_mean"] < IDLE]
    if not idle or node.seconds < LEAST_SECONDS:
        return
    unused = [one for one in idle if (one["memory_peak_bytes"] or 0) < UNUSED_BYTES]
    numbers = {
        "idle": len(idle),
        "unused": len(unused),
        "gpus": len(gpus),
        "ranks": node.ranks,
        "use_mean": sum(one["use_mean"] for one in idle) / len(idle),
    }
    options: dict[str, Any] = {}
    if unused and node.ranks < len(gpus):
        options = {"ntasks-per-node": len(gpus)}
    elif unused and len(unused) < len(gpus):
        options = {"gpus-per-node": len(gpus) - len(unused)}
    yield Finding(IDLE_GPU, node.host, numbers, options)


def _cpus(node: NodeUse) -> Iterator[Finding]:
    """Yield the ranks that used few of their CPUs."""
    if node.seconds < LEAST_SECONDS:
        return
    few = []
    for one in node.of_ranks:
        used = None if one.cpu_seconds is None else one.cpu_seconds / node.seconds / one.workers
        cpus = one.cpus // one.workers
        if used is not None and cpus >= LEAST_CPUS and used <= UNUSED_CPUS * cpus:
            few.append((used, cpus, one.rank))
    if few:
        used, cpus, rank = max(few)
        numbers = {"rank": rank, "used": used, "cpus": cpus, "ranks": len(few)}
        options = {"cpus-per-task": max(1, math.ceil(SPARE * used))}
        yield Finding(IDLE_CPUS, node.host, numbers, options)


def sentence(finding: Finding) -> str:
    """Return what was found, and what else than an option could fix it."""
    numbers, where = finding.numbers, finding.node
    if finding.nodes > 1:
        where += f" and {finding.nodes - 1} more nodes"
    if finding.id == MEMORY:
        whose = {"cgroup": "the job's limit", "slurm": "--mem"}.get(
            numbers["limit_of"], "the node's memory"
        )
        used, limit = (numbers[name] / GIGABYTE for name in ("used_bytes", "limit_bytes"))
        text = f"{used:.1f} GiB of {limit:.1f} GiB used, near {whose}"
        return f"{where}: {text}" + ("" if finding.options else "; use fewer ranks per node")
    if finding.id == IDLE_GPU:
        share = f"{100 * numbers['use_mean']:.0f} %"
        text = f"{numbers['idle']} of {numbers['gpus']} GPUs were idle (use {share} of the time)"
        if numbers["unused"]:
            return f"{where}: {text}, {numbers['unused']} held no data: {numbers['ranks']} ranks"
        return f"{where}: {text}: they wait for data or for other ranks (more data loading workers)"
    return (
        f"{where}: rank {numbers['rank']} used {numbers['used']:.1f} of its {numbers['cpus']} CPUs "
        "(or let it use them: data loading workers, OMP_NUM_THREADS)"
    )


def options_in_words(finding: Finding) -> str:
    return " ".join(f"--{name} {value}" for name, value in finding.options.items())
