"""The default: a small cluster without accounts, whose only partitions are cpu and gpu."""

from __future__ import annotations

from .model import Flavour, Nodes, Partition

TIMES = "MaxTime=1-00:00:00 DefaultTime=01:00:00"


def flavour(nodes: tuple[str, ...]) -> Flavour:
    """The default cluster with compute nodes of these names."""
    return Flavour(
        cluster="kit",
        kinds=(Nodes(nodes, cpus=8, memory_mb=8192, gpu_type="A100", gpus=4),),
        partitions=(Partition("cpu", f"Default=YES {TIMES}"), Partition("gpu", TIMES)),
    )
