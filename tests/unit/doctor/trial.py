"""Records as the ranks of the doctor's job write them, for its tests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from runners.contract.interfaces import Interface, Port

Record = dict[str, Any]
ETH = asdict(Interface("eth0", "ethernet", True, True, 10000, ("10.77.0.2",)))
IB = asdict(Port("mlx5_0", "1", "infiniband", "ACTIVE", "200 Gb/sec (4X HDR)", 200.0))
VIEW = {"path": "/a.sif", "device": 1, "inode": 2, "size": 3, "mtime": 4.0, "of": "every byte"}


def record(rank: int, **changes: Any) -> Record:
    """Return what one of four ranks on two nodes, two each, writes."""
    node, local = divmod(rank, 2)
    facts: Record = {
        "host": f"n{node + 1}",
        "rank": rank,
        "size": 4,
        "local_rank": local,
        "local_size": 2,
        "cross_rank": node,
        "cross_size": 2,
        "cpus": [2 * local, 2 * local + 1],
        "cpus_of_node": 4,
        "threads": 2,
        "device": "cpu",
        "gpu": "",
        "shared_memory": 10**10,
        "variables": {"HOROVOD_CONTROLLER": "gloo"},
        "locked_memory": -1,
        "interfaces": [ETH],
        "ports": [],
    }
    if local == 0:
        facts["image"] = {**VIEW, "sha256": "ab" * 32}
    return {**facts, **changes}


def ranks(**changes: Any) -> list[Record]:
    """Return all four; `changes` are those of each."""
    return [record(rank, **changes) for rank in range(4)]
