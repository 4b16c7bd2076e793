"""Speed, and the network that a job really used, against what the nodes have."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ...core.remedy import change
from ...core.text import table_lines
from ...injob.interfaces import Interface, Port
from ..finding import About, Finding
from .network import Network, rate, shown, shown_port
from .world import Record

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
ABOUT = About("network of the job")
MB = 10**6
SHARE = 0.05  # of the bytes sent; less is the chatter of the system
COUNTED = 0.5  # of the bytes that must have been sent; less means that they went another way
# Bus bandwidth below this part of the interface's speed is not the network's doing.
SLOW = 0.05
# Data over TCP where something faster works, by who moves them.
FASTER = {
    "NCCL": "unset NCCL_IB_DISABLE NCCL_NET, and: runner launch --env NCCL_IB_HCA=DEVICE ...",
    "UCX": "runner launch --env UCX_TLS=all ..., and look why UCX leaves out the device",
    "Open MPI": "runner launch --host-mpi ..., or an image whose Open MPI has UCX",
    "": "runner launch --controller mpi ..., or NCCL for the data (an image for GPUs)",
}
LIBFABRIC = "runner launch --host-mpi ..., or bind the site's NCCL plugin (runner sites show)"


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
    ways = Counter(btl for btl, _ in set(OMPI_BTL.findall(log)))
    kinds = {"tcp": TCP, **{btl: f"memory ({btl})" for btl in LOCAL_BTLS}}
    named = {kinds.get(btl, f"{RDMA} ({btl})"): count for btl, count in ways.items()}
    found = OMPI_PML.search(log)
    messenger = found.group(1) if found else ""
    if messenger == "cm":  # hands messages whole to libfabric or PSM
        named[f"{PLUGIN} (pml cm)"] = 1
    return Words("Open MPI", named, messenger=messenger)


def check(result: Record, words: Words) -> list[Finding]:
    ranks = result["ranks"]
    speed = _speed(result["bandwidth"])
    if len({record["host"] for record in ranks}) == 1:
        says = "one node: nothing went over a network"
        return [ABOUT.ok("transport", says, evidence(ranks, words)), speed]
    moved = sum(row["moved"] for row in result["bandwidth"])
    return [_transport(ranks, words, moved), speed, *_slow(ranks, result["bandwidth"])]


def _speed(table: list[Record]) -> Finding:
    rows = [
        [str(row["bytes"]), f"{row['seconds']:.6f}", _rate(row["algorithm"]), _rate(row["bus"])]
        for row in table
    ]
    lines = table_lines([["bytes", "seconds", "algorithm", "bus"], *rows], right=True)
    lines.append("bus = algorithm * 2 (n - 1) / n, as in nccl-tests")
    if not all(row["right"] for row in table):
        says = "sums of the ranks are wrong"
        fix = "runner verify IMAGE, and another --controller"
        return ABOUT.failure("allreduce", says, "\n".join(lines), fix)
    says = f"{_rate(table[-1]['bus'])} bus bandwidth at {table[-1]['bytes'] // 2**20} MiB"
    return ABOUT.ok("allreduce", says, "\n".join(lines))


def _rate(value: float) -> str:
    return f"{value / MB:.0f} MB/s"


def networks(ranks: list[Record]) -> dict[str, Network]:
    """Return the network of each node, as its first rank saw it."""
    found = {}
    for record in ranks:
        if record["local_rank"] == 0:
            facts = [
                {**item, "addresses": tuple(item["addresses"])} for item in record["interfaces"]
            ]
            interfaces = tuple(Interface(**each) for each in facts)
            ports = tuple(Port(**port) for port in record["ports"])
            found[record["host"]] = Network(record["host"], None, interfaces, ports)
    return found


def carried(ranks: list[Record]) -> dict[str, int]:
    """Return the bytes by interface or port that the nodes sent meanwhile, loopback left out."""
    total: Counter[str] = Counter()
    for record in ranks:
        if record["local_rank"] == 0:
            total.update(record["sent"])
    whole = sum(count for name, count in total.items() if name != "lo") or 1
    return {
        name: count for name, count in total.most_common() if name != "lo" and count > whole * SHARE
    }


def _transport(ranks: list[Record], words: Words, moved: int) -> Finding:
    """Compare what was used with the best that every node has; `moved` bytes each node sent."""
    fabrics = [set(network.fabrics) for network in networks(ranks).values()]
    fast = sorted(set.intersection(*fabrics)) if fabrics else []
    names = list(carried(ranks))
    kind = words.kind or _kind(names, ranks, moved)
    over = f" over {', '.join(names)}" if names and kind == TCP else ""
    says = f"{kind}{over}" + (f", by {words.who}'s own words" if words.kind else "")
    proof = evidence(ranks, words)
    if kind != TCP or not fast:
        return ABOUT.ok("transport", says, proof)
    fix = _fix(words.who, fast, ranks, names)
    if fix is None:
        return ABOUT.ok("transport", f"{says}, on the fabric ({', '.join(fast)})", proof)
    says += f", while every node has {', '.join(fast)}"
    return ABOUT.warning("transport", says, proof, fix)


def _fix(who: str, fast: list[str], ranks: list[Record], used: list[str]) -> str | None:
    """Return what leads to the fabric, None when Gloo, which knows TCP only, is there already."""
    if who:
        return LIBFABRIC if fast[0] in ("slingshot", "efa") else FASTER[who]
    items = [item for network in networks(ranks).values() for item in network.interfaces]
    fabric = [item.name for item in items if item.kind in ("ipoib", "slingshot") and item.works]
    if fabric and set(used) & set(fabric):
        return None
    return f"runner launch --network-interfaces {fabric[0]} ..." if fabric else FASTER[""]


def _kind(names: list[str], ranks: list[Record], moved: int) -> str:
    """Return what the counters say: only a port of the fabric counts RDMA, and not every one does.

    What went past all counters went past the kernel, as it does on Slingshot.
    """
    nodes = networks(ranks)
    ports = {port.name for network in nodes.values() for port in network.ports}
    counted = sum(carried(ranks).values())
    if not names or counted < moved * len(nodes) * COUNTED:
        return f"{RDMA} past the kernel's counters"
    return RDMA if names[0] in ports else TCP


def evidence(ranks: list[Record], words: Words) -> str:
    """Return the counters, the libraries' words and the interfaces, one line each."""
    first = next(record for record in ranks if record["rank"] == 0)
    sent = first["sent"].items()
    lines = [
        f"sent by {first['host']}: {count / MB:.1f} MB on {name}"
        for name, count in sent
        if count > MB
    ]
    lines += [f"{words.who}: {way}, {count} times" for way, count in sorted(words.ways.items())]
    lines += [f"{words.who}: {line}" for line in words.lines]
    lines += [f"Open MPI: messages by {words.messenger}"] if words.messenger else []
    there = networks(ranks)[first["host"]]
    lines += [shown(item) for item in there.interfaces if item.kind != "loopback"]
    return "\n".join([*lines, *map(shown_port, there.ports)])


def _slow(ranks: list[Record], table: list[Record]) -> list[Finding]:
    """Return a warning when the largest sum is far below what the interface used can do."""
    names = list(carried(ranks))
    network = next(iter(networks(ranks).values()))
    speeds = [item.speed for item in network.interfaces if names and item.name == names[0]]
    if not speeds or not speeds[0]:
        return []
    megabits = table[-1]["bus"] * 8 / MB
    if megabits > speeds[0] * SLOW:
        return []
    says = f"{megabits:.0f} Mbit/s of the {rate(speeds[0])} that {names[0]} can do"
    fix = change(job=True, ntasks_per_node=1, exclusive=True)
    return [ABOUT.warning("speed", says, "", fix)]
