"""The contents of `use.json`: what the ranks used, which rank 0 adds up by node.

A value that could not be read is None, and is shown as "not measured".
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
        values = [gpu[name] for gpu in (self.gpus or {}).values() if gpu.get(name) is not None]
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
    """Return what the ranks of each node used, in the order of their first ranks.

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
        "sampler_share": max((node.sampler_share for node in nodes), default=0.0),
        "nodes": [asdict(node) for node in nodes],
        "findings": [asdict(finding) for finding in findings],
    }


def read(value: Any) -> list[NodeUse]:
    """Return the nodes of use.json. A damaged file raises one of core.files.DAMAGED."""
    if value["version"] != VERSION:
        raise ValueError(f"its version is {value['version']}, and this one reads {VERSION}")
    if not all(isinstance(node["host"], str) for node in value["nodes"]):
        raise ValueError("a node has no name")
    return [
        NodeUse(**{**node, "of_ranks": tuple(RankUse(**rank) for rank in node["of_ranks"])})
        for node in value["nodes"]
    ]


def _node(host: str, reports: Mapping[int, Mapping[str, Any]]) -> NodeUse:
    of_ranks = list(reports.values())
    masks = [int(report["cpus"], 16) for report in of_ranks]
    shared: Mapping[str, Any] = next(
        (report["node"] for report in of_ranks if "node" in report), {}
    )
    gpus = {uuid: gpu for report in of_ranks for uuid, gpu in report["gpus"].items()}
    seconds = max(report["seconds"] for report in of_ranks)
    together = 0
    for mask in masks:
        together |= mask
    return NodeUse(
        host,
        ranks=sum(report["workers"] for report in of_ranks),
        seconds=seconds,
        cpus=bin(together).count("1"),
        cpu_seconds=_sum([report["cpu_seconds"] for report in of_ranks]),
        memory_mean_bytes=_sum([report["memory"]["mean"] for report in of_ranks]),
        memory_peak_bytes=_sum([report["memory"]["peak"] for report in of_ranks]),
        memory_group_peak_bytes=shared.get("group_peak"),
        memory_limit_bytes=shared.get("limit"),
        memory_limit_of=shared.get("limit_of", ""),
        gpus=gpus or None,
        sampler_share=sum(report["sampler_seconds"] for report in of_ranks) / max(seconds, 1e-3),
        of_ranks=[_rank(rank, report, masks) for rank, report in reports.items()],
    )


def _rank(rank: int, fields: Mapping[str, Any], masks: Sequence[int]) -> RankUse:
    """Return one rank's use; ranks that may run on the same CPUs divide them."""
    mask = int(fields["cpus"], 16)
    cpus = max(1, bin(mask).count("1") // masks.count(mask))
    workers, peak = fields["workers"], fields["memory"]["peak"]
    return RankUse(rank, workers, cpus, fields["cpu_seconds"], peak)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where a part of it is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
