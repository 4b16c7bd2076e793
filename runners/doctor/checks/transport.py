"""Which transport a job used, against the fastest that all of its nodes have."""

from __future__ import annotations

from ..finding import About, Finding
from ..transport_log import RDMA, TCP, TransportLog
from . import network
from .network import NodeNetwork
from .world import Record

ABOUT = About("network of the job")
MB = 10**6
COUNTED = 0.5  # of the bytes that must have been sent; less means that they went another way
# Data over TCP where something faster works, by the library that moves them.
FASTER = {
    "NCCL": "unset NCCL_IB_DISABLE NCCL_NET, and: runner launch --env NCCL_IB_HCA=DEVICE ...",
    "UCX": "runner launch --env UCX_TLS=all ..., and look why UCX leaves out the device",
    "Open MPI": "runner launch --host-mpi ..., or an image whose Open MPI has UCX",
    "": "runner launch --controller mpi ..., or NCCL for the data (an image for GPUs)",
}
LIBFABRIC = "runner launch --host-mpi ..., or bind the site's NCCL plugin (runner sites show)"


def check(result: Record, log: TransportLog) -> Finding:
    ranks = result["ranks"]
    nodes, used = network.of_nodes(ranks), network.sent_bytes(ranks)
    proof = _evidence(ranks, nodes, log)
    if len({record["host"] for record in ranks}) == 1:
        return ABOUT.ok("transport", "one node: nothing went over a network", proof)
    to_send = len(nodes) * sum(row["moved"] for row in result["bandwidth"])
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
