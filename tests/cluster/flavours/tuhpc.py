"""A university's cluster of CPUs: no GPUs, no accounts, modules."""

from __future__ import annotations

from .model import Flavour, Nodes, Partition, numbered

FLAVOUR = Flavour(
    cluster="tuhpc",
    kinds=(Nodes(numbered("c", 1, 2), cpus=16, memory_mb=65536),),
    partitions=(Partition("standard", "Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00"),),
    modules=("apptainer", "singularity", "openmpi"),
)
