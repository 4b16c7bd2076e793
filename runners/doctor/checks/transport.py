"""Which transport a job used, and how fast its ranks summed, against what its nodes have.

The transport is that of which NCCL, UCX or Open MPI speaks in the job's log, else what was counted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ...core.remedy import change
from ..finding import About, Finding
from . import network
from .network import NodeNetwork
from .world import Record

ABOUT = About("network of the job")
MB = 10**6
# Bus bandwidth below this part of the interface's speed is not the network's doing.
SLOW = 0.05
COUNTED = 0.5  # of the bytes that must have been sent; less means that they went another way
# Data over TCP where something faster works, by the library that moves them.
FASTER = {
    "NCCL": "unset NCCL_IB_DISABLE NCCL_NET, and: runner launch --env NCCL_IB_HCA=DEVICE ...",
    "UCX": "runner launch --env UCX_TLS=all ..., and look why UCX leaves out the device",
    "Open MPI": "runner launch --host-mpi ..., or an image whose Open MPI has UCX",
    "": "runner launch --controller mpi ..., or NCCL for the data (an image for GPUs)",
}
LIBFABRIC = "runner launch --host-mpi ..., or bind the site's NCCL plugin (runner sites show)"
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
        of_library = reader(log)
        if of_library.transports:
            return of_library
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
    match = OMPI_PML.search(log)
    pml = match.group(1) if match else ""
    if pml == "cm":  # hands messages whole to libfabric or PSM
        counts[f"{PLUGIN} (pml cm)"] = 1
    return TransportLog("Open MPI", counts, pml=pml)


def check(result: Record, log: TransportLog) -> list[Finding]:
    ranks, table = result["ranks"], result["bandwidth"]
    several_nodes = len({record["host"] for record in ranks}) > 1
    slow = _slow(ranks, table) if several_nodes else ()
    return [_transport(ranks, table, log), _allreduce(table), *slow]


def _transport(ranks: list[Record], table: list[Record], log: TransportLog) -> Finding:
    nodes, used = network.of_nodes(ranks), network.sent_bytes(ranks)
    proof = _evidence(ranks, nodes, log)
    if len(nodes) == 1:
        return ABOUT.ok("transport", "one node: nothing went over a network", proof)
    to_send = len(nodes) * sum(row["moved"] for row in table)
    kind = log.kind or _counted_kind(used, nodes, to_send)
    over = f" over {', '.join(used)}" if used and kind == TCP else ""
    says = f"{kind}{over}" + (f", by {log.library}'s own words" if log.kind else "")
    fast = sorted(set.intersection(*(set(node.fabrics) for node in nodes.values())))
    if kind != TCP or not fast:
        return ABOUT.ok("transport", says, proof)
    fix = _fix(log.library, fast, nodes, used)
    if not fix:
        return ABOUT.ok("transport", f"{says}, on the fabric ({', '.join(fast)})", proof)
    says += f", while every node has {', '.join(fast)}"
    return ABOUT.warning("transport", says, proof, fix)


def _counted_kind(used: dict[str, int], nodes: dict[str, NodeNetwork], to_send: int) -> str:
    """Return what the counters say: only a port of the fabric counts RDMA, and not every one does.

    What went past all counters went past the kernel, as it does on Slingshot.
    """
    ports = {port.name for node in nodes.values() for port in node.ports}
    if not used or sum(used.values()) < to_send * COUNTED:
        return f"{RDMA} past the kernel's counters"
    return RDMA if next(iter(used)) in ports else TCP


def _fix(library: str, fast: list[str], nodes: dict[str, NodeNetwork], used: dict[str, int]) -> str:
    """Return what leads to the fabric, "" when Gloo, which knows TCP only, is there already."""
    if library:
        return LIBFABRIC if fast[0] in ("slingshot", "efa") else FASTER[library]
    items = [item for node in nodes.values() for item in node.interfaces]
    fabric = [item.name for item in items if item.kind in ("ipoib", "slingshot") and item.works]
    if used.keys() & set(fabric):
        return ""
    return f"runner launch --network-interfaces {fabric[0]} ..." if fabric else FASTER[""]


def _evidence(ranks: list[Record], nodes: dict[str, NodeNetwork], log: TransportLog) -> str:
    """Return the counters, the library's words and the interfaces, one line each."""
    first = next(record for record in ranks if record["rank"] == 0)
    lines = [
        f"sent by {first['host']}: {count / MB:.1f} MB on {name}"
        for name, count in first["sent"].items()
        if count > MB
    ]
    lines += [f"{log.library}: {name}, {n} times" for name, n in sorted(log.transports.items())]
    lines += [f"{log.library}: {line}" for line in log.lines]
    lines += [f"Open MPI: messages by {log.pml}"] if log.pml else []
    node = nodes[first["host"]]
    lines += [network.shown(item) for item in node.interfaces if item.kind != "loopback"]
    return "\n".join([*lines, *map(network.shown_port, node.ports)])


def _allreduce(table: list[Record]) -> Finding:
    rows = [("bytes", "seconds", "algorithm", "bus")]
    rows += [
        (str(row["bytes"]), f"{row['seconds']:.6f}", _rate(row["algorithm"]), _rate(row["bus"]))
        for row in table
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
    lines.append("bus = algorithm * 2 (n - 1) / n, as in nccl-tests")
    if not all(row["right"] for row in table):
        says = "sums of the ranks are wrong"
        fix = "runner verify IMAGE, and another --controller"
        return ABOUT.failure("allreduce", says, "\n".join(lines), fix)
    says = f"{_rate(table[-1]['bus'])} bus bandwidth at {table[-1]['bytes'] // 2**20} MiB"
    return ABOUT.ok("allreduce", says, "\n".join(lines))


def _rate(value: float) -> str:
    return f"{value / MB:.0f} MB/s"


def _slow(ranks: list[Record], table: list[Record]) -> list[Finding]:
    """Return a warning when the largest sum is far below what the interface used can do."""
    used = next(iter(network.sent_bytes(ranks)), "")
    interfaces = next(iter(network.of_nodes(ranks).values())).interfaces
    speed = next((item.speed for item in interfaces if item.name == used), 0)
    megabits = table[-1]["bus"] * 8 / MB
    if not speed or megabits > speed * SLOW:
        return []
    says = f"{megabits:.0f} Mbit/s of the {network.rate(speed)} that {used} can do"
    fix = change(job=True, ntasks_per_node=1, exclusive=True)
    return [ABOUT.warning("speed", says, "", fix)]
