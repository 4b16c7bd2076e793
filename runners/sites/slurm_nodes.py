"""What Slurm says of a cluster's nodes: its PMI types and partitions."""

from __future__ import annotations

import re
from dataclasses import replace

from ..core import shell
from ..core.site import NodeGroup, Partition

MPI_LIST = ["srun", "--mpi=list"]
# sinfo(1), -o: name with * for the default, nodes, CPUs, GRES, time limit, disk, features.
# With --exact, nodes that differ have lines of their own.
PARTITIONS = ["sinfo", "--noheader", "--exact", "--format=%P|%D|%c|%G|%l|%d|%f"]
# gpu:A100:4(S:0-1), gpu:2, gpu:a100_1g.5gb:7
GPU = re.compile(r"gpu(?::(?P<type>[^:(]+))?:(?P<count>\d+)")


def parse_mpi_list(text: str) -> tuple[str, ...]:
    """Return the types that `srun --mpi=list` prints, such as none, pmi2, pmix and pmix_v5.

    Slurm 22.05 to 26.05 print a heading, one indented type a line, and a line of pmix versions.
    """
    types: list[str] = []
    for line in text.splitlines():
        if line.startswith(("\t", " ")):
            types.append(line.strip())
        elif line.startswith("specific pmix plugin versions available:"):
            types += [version.strip() for version in line.split(":", 1)[1].split(",")]
    return tuple(types)


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in sinfo's lines; raise ValueError for a line of another form."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        partition = _parse_partition(line)
        known = partitions.get(partition.name)
        partitions[partition.name] = _merged(known, partition) if known else partition
    return tuple(partitions.values())


def _parse_partition(line: str) -> Partition:
    name, nodes, cpus, gres, limit, disk, *features = line.split("|")
    gpus = tuple((match["type"] or "", int(match["count"])) for match in GPU.finditer(gres))
    named = tuple(name for text in features if text != "(null)" for name in text.split(","))
    return Partition(
        name.rstrip("*"),
        int(nodes),
        int(cpus.rstrip("+")),
        gpus,
        limit,
        name.endswith("*"),
        int(disk.rstrip("+")),
        (NodeGroup(int(nodes), gpus, named, int(cpus.rstrip("+"))),),
    )


def _merged(first: Partition, second: Partition) -> Partition:
    """Return one partition of two kinds of nodes, as poor as the poorer of them."""
    return replace(
        first,
        nodes=first.nodes + second.nodes,
        cpus=min(first.cpus, second.cpus),
        disk_mb=min(first.disk_mb, second.disk_mb),
        gpus=first.gpus + tuple(gpu for gpu in second.gpus if gpu not in first.gpus),
        groups=first.groups + second.groups,
    )


def has_partition(name: str) -> bool:
    """Whether Slurm has a partition of this name; True where it does not say."""
    (answer,) = shell.together([["scontrol", "show", "partition", name]], 10)
    return answer.code == 0 or "not found" not in answer.out + answer.err
