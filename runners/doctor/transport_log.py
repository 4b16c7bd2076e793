"""Reads from a job's log which transports NCCL, UCX or Open MPI say that they use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

# NCCL 2.4 to 2.27, NCCL_DEBUG=INFO: "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3/GDRDMA",
# "... via NET/AWS Libfabric/0", "... via P2P/IPC/read", "... via SHM/direct/direct".
NCCL_CHANNEL = re.compile(r"NCCL INFO Channel .*? via ([A-Z0-9]+(?:/[A-Za-z][^/\n]*)?)(?:/|\s|$)")
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
class TransportLog:
    """How often a library names each transport, further lines of its own, and Open MPI's PML.

    A transport between nodes begins with its kind: `TCP over eth0`, `RDMA over mlx5_0:1`, ...
    """

    library: str = ""
    transports: dict[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    pml: str = ""

    @property
    def kind(self) -> str:
        """The kind of transport between nodes that was named most, "" when none was."""
        between = [name for name in self.transports if name.split(" ")[0] in (TCP, RDMA, PLUGIN)]
        return max(between, key=self.transports.__getitem__).split(" ")[0] if between else ""


def parse(log: str) -> TransportLog:
    """Return what the library that moved the data says; NCCL's word comes before MPI's."""
    for reader in (_nccl, _ucx, _openmpi):
        found = reader(log)
        if found.transports:
            return found
    return TransportLog()


def _nccl(log: str) -> TransportLog:
    using = dict.fromkeys(line.strip() for line in NCCL_USING.findall(log))
    counts = Counter(_of_nccl_channel(each) for each in NCCL_CHANNEL.findall(log))
    direct = ("GPUDirect RDMA is used",) if NCCL_DIRECT in log else ()
    return TransportLog("NCCL", dict(counts), (*using, *direct))


def _of_nccl_channel(text: str) -> str:
    kind, _, name = text.partition("/")
    if kind != "NET":
        return {"P2P": "peer to peer", "SHM": "shared memory"}.get(kind, kind)
    if name == "Socket":
        return TCP
    return f"{RDMA} ({name})" if name.startswith("IB") else f"{PLUGIN} ({name})"


def _ucx(log: str) -> TransportLog:
    """Read the lanes of UCX's endpoints."""
    parts = [part for line in UCX_LINE.findall(log) for part in UCX_LANES.findall(line)]
    lanes = Counter(lane for part in parts for lane in part.split() if "/" in lane)
    return TransportLog("UCX", {_of_ucx_lane(lane): count for lane, count in lanes.items()})


def _of_ucx_lane(lane: str) -> str:
    transport, _, device = lane.partition("/")
    if transport.startswith(UCX_MEMORY):
        return f"memory ({transport})"
    return f"{TCP if transport == 'tcp' else RDMA} over {device}"


def _openmpi(log: str) -> TransportLog:
    """Read which of Open MPI's byte transfer layers lead to the other nodes."""
    btls = Counter(btl for btl, _ in set(OMPI_BTL.findall(log)))
    kinds = {"tcp": TCP, **{btl: f"memory ({btl})" for btl in LOCAL_BTLS}}
    counts = {kinds.get(btl, f"{RDMA} ({btl})"): count for btl, count in btls.items()}
    found = OMPI_PML.search(log)
    pml = found.group(1) if found else ""
    if pml == "cm":  # hands messages whole to libfabric or PSM
        counts[f"{PLUGIN} (pml cm)"] = 1
    return TransportLog("Open MPI", counts, pml=pml)
