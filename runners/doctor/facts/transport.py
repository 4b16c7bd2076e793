"""What the libraries themselves say, in the job's log, about the network that they use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

# NCCL 2.4 to 2.27, NCCL_DEBUG=INFO: "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3/GDRDMA",
# "... via NET/AWS Libfabric/0", "... via P2P/IPC/read", "... via SHM/direct/direct".
NCCL_WAY = re.compile(r"NCCL INFO Channel .*? via ([A-Z0-9]+(?:/[A-Za-z][^/\n]*)?)(?:/|\s|$)")
# "NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.168.11.1<0>", "NET/Socket : Using [0]eth0:..."
NCCL_USING = re.compile(r"NCCL INFO (NET/\S+ ?: Using .+)$", re.MULTILINE)
NCCL_DIRECT = "GDRDMA"
# UCX 1.5 to 1.18, UCX_LOG_LEVEL=info: "UCX  INFO  ep_cfg[2]: tag(rc_mlx5/mlx5_0:1)", since 1.14
# "UCX  INFO    0x252d990 inter-node cfg#2 tag(tcp/eth0) ..."
UCX_LINE = re.compile(r"UCX\s+INFO\s.*cfg.*$", re.MULTILINE)
UCX_LANES = re.compile(r"\b(?:tag|am|stream)\(([^)]*)\)")
UCX_MEMORY = ("self", "sysv", "posix", "cma", "knem", "xpmem", "mm", "cuda", "rocm", "gdr_copy")
# Open MPI 4.1 and 5.0, btl_base_verbose=1 and pml_base_verbose=10.
OMPI_BTL = re.compile(r"bml: Using (\w+) btl for send to \S+ on node (\S+)")
OMPI_PML = re.compile(r"selected (\w+) best priority")
LOCAL_BTLS = ("self", "vader", "sm")
TCP, RDMA, PLUGIN = "TCP", "RDMA", "libfabric"


@dataclass(frozen=True)
class Words:
    """What was said: `ways` with how often, more `lines` of evidence, `messenger` Open MPI's pml.

    A way between nodes is `TCP over eth0`, `RDMA over mlx5_0:1`, ... with its kind first.
    """

    who: str = ""
    ways: dict[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    messenger: str = ""

    @property
    def kind(self) -> str:
        """The kind of the way between nodes that was used most, "" when nothing was said."""
        between = [way for way in self.ways if way.split(" ")[0] in (TCP, RDMA, PLUGIN)]
        return max(between, key=lambda way: self.ways[way]).split(" ")[0] if between else ""


def parse(log: str) -> Words:
    """Return what the library that moved the data says; NCCL's word comes before MPI's."""
    for reader in (nccl, ucx, openmpi):
        words = reader(log)
        if words.ways:
            return words
    return Words()


def nccl(log: str) -> Words:
    """Read NCCL's channels."""
    using = dict.fromkeys(line.strip() for line in NCCL_USING.findall(log))
    ways = Counter(_nccl_way(way) for way in NCCL_WAY.findall(log))
    direct = ("GPUDirect RDMA is used",) if NCCL_DIRECT in log else ()
    return Words("NCCL", dict(ways), (*using, *direct))


def _nccl_way(way: str) -> str:
    kind, _, name = way.partition("/")
    if kind != "NET":
        return {"P2P": "peer to peer", "SHM": "shared memory"}.get(kind, kind)
    if name == "Socket":
        return TCP
    return f"{RDMA} ({name})" if name.startswith("IB") else f"{PLUGIN} ({name})"


def ucx(log: str) -> Words:
    """Read the lanes of UCX's endpoints."""
    parts = [part for line in UCX_LINE.findall(log) for part in UCX_LANES.findall(line)]
    lanes = Counter(lane for part in parts for lane in part.split() if "/" in lane)
    return Words("UCX", {_ucx_way(lane): count for lane, count in lanes.items()})


def _ucx_way(lane: str) -> str:
    transport, _, device = lane.partition("/")
    if transport.startswith(UCX_MEMORY):
        return f"memory ({transport})"
    return f"{TCP if transport == 'tcp' else RDMA} over {device}"


def openmpi(log: str) -> Words:
    """Read which of Open MPI's byte transfer layers lead to the other nodes."""
    pairs = set(OMPI_BTL.findall(log))
    ways = Counter(btl for btl, _ in pairs)
    named = {TCP if btl == "tcp" else _btl(btl): count for btl, count in ways.items()}
    found = OMPI_PML.search(log)
    messenger = found.group(1) if found else ""
    if messenger == "cm":  # hands messages whole to libfabric or PSM
        named[f"{PLUGIN} (pml cm)"] = 1
    return Words("Open MPI", named, messenger=messenger)


def _btl(name: str) -> str:
    return f"memory ({name})" if name in LOCAL_BTLS else f"{RDMA} ({name})"
