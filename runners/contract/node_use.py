"""`use.json`: what the ranks report of their use, put together by node on rank 0.

What could not be read is None, which people read as "not measured".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 2  # of its form


@dataclass(frozen=True)
class RankUse:
    """One rank, or the `workers` of one launcher such as torchrun; `cpus` are its own share."""

    rank: int
    workers: int
    cpus: int
    cpu_seconds: float | None
    memory_peak_bytes: float | None


@dataclass(frozen=True)
class NodeUse:
    """One node. Memory is the sum of its ranks'; `memory_group_peak_bytes` is what the cgroup of
    the limit counted, without page cache.
    """

    host: str
    ranks: int
    seconds: float
    cpus: int
    cpu_seconds: float | None = None
    memory_mean_bytes: float | None = None
    memory_peak_bytes: float | None = None
    memory_group_peak_bytes: float | None = None
    memory_limit_bytes: int | None = None
    memory_limit_of: str = ""
    gpus: Mapping[str, Mapping[str, Any]] | None = None
    sampler_share: float = 0.0
    of_ranks: Sequence[RankUse] = field(default_factory=tuple)

    @property
    def cpus_used(self) -> float | None:
        return None if self.cpu_seconds is None else self.cpu_seconds / max(self.seconds, 1e-3)

    def mean_of_gpus(self, name: str) -> float | None:
        values = [one[name] for one in (self.gpus or {}).values() if one.get(name) is not None]
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class UsageFinding:
    """One of the ids in `summary`: the first node where it was seen, `numbers` of that node, on how
    many nodes it was seen, and the options of the launch that fix it, where there are any.
    """

    id: str
    node: str
    numbers: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    nodes: int = 1


def of_nodes(reports: Mapping[int, Mapping[str, Any]]) -> list[NodeUse]:
    """Return what each node was used for, in the order of their first ranks.

    `reports` are the ranks' last ones.
    """
    ranks: dict[str, dict[int, Mapping[str, Any]]] = {}
    for rank, fields in sorted(reports.items()):
        ranks.setdefault(str(fields["host"]), {})[rank] = fields
    return [_node(host, of_node) for host, of_node in ranks.items()]


def as_value(nodes: Sequence[NodeUse], findings: Sequence[UsageFinding]) -> dict[str, Any]:
    """Return both as use.json has them."""
    return {
        "version": VERSION,
        "sampler_share": max((one.sampler_share for one in nodes), default=0.0),
        "nodes": [asdict(one) for one in nodes],
        "findings": [asdict(one) for one in findings],
    }


def read(value: Any) -> list[NodeUse]:
    """Return the nodes of such a file. Raises what a damaged one raises, see core.files.DAMAGED."""
    if value["version"] != VERSION:
        raise ValueError(f"its version is {value['version']}, and this one reads {VERSION}")
    if not all(isinstance(one["host"], str) for one in value["nodes"]):
        raise ValueError("a node has no name")
    return [
        NodeUse(**{**one, "of_ranks": tuple(RankUse(**each) for each in one["of_ranks"])})
        for one in value["nodes"]
    ]


def _node(host: str, reports: Mapping[int, Mapping[str, Any]]) -> NodeUse:
    all_of_it = list(reports.values())
    masks = [int(one["cpus"], 16) for one in all_of_it]
    shared: Mapping[str, Any] = next((one["node"] for one in all_of_it if "node" in one), {})
    gpus = {uuid: gpu for one in all_of_it for uuid, gpu in one["gpus"].items()}
    seconds = max(one["seconds"] for one in all_of_it)
    together = 0
    for mask in masks:
        together |= mask
    return NodeUse(
        host,
        ranks=sum(one["workers"] for one in all_of_it),
        seconds=seconds,
        cpus=bin(together).count("1"),
        cpu_seconds=_sum([one["cpu_seconds"] for one in all_of_it]),
        memory_mean_bytes=_sum([one["memory"]["mean"] for one in all_of_it]),
        memory_peak_bytes=_sum([one["memory"]["peak"] for one in all_of_it]),
        memory_group_peak_bytes=shared.get("group_peak"),
        memory_limit_bytes=shared.get("limit"),
        memory_limit_of=shared.get("limit_of", ""),
        gpus=gpus or None,
        sampler_share=sum(one["sampler_seconds"] for one in all_of_it) / max(seconds, 1e-3),
        of_ranks=[_rank(rank, one, masks) for rank, one in reports.items()],
    )


def _rank(rank: int, fields: Mapping[str, Any], masks: Sequence[int]) -> RankUse:
    """Return one rank; those that may run on the same CPUs share them."""
    mask = int(fields["cpus"], 16)
    cpus = max(1, bin(mask).count("1") // masks.count(mask))
    workers, peak = fields["workers"], fields["memory"]["peak"]
    return RankUse(rank, workers, cpus, fields["cpu_seconds"], peak)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where a part of it is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
