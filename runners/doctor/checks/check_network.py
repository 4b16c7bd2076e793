"""The network of a node: interfaces, fabric ports, and where its own name leads."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from ...contract import interfaces
from ...contract.interfaces import Interface, Port
from ...core.remedy import command
from ..finding import About, Finding
from ..timed import in_time
from .world import Record

SECONDS_FOR_A_NAME = 5.0
CXI = "/sys/class/cxi"


@dataclass(frozen=True)
class NodeNetwork:
    """What a node is connected to.

    `address` is what the host name resolves to, "" when to nothing, None when the resolver did
    not answer in time. `cxi` are the devices of Slingshot, which libfabric opens.
    """

    host: str
    address: str | None
    interfaces: tuple[Interface, ...] = ()
    ports: tuple[Port, ...] = ()
    cxi: tuple[str, ...] = ()

    @property
    def fabrics(self) -> tuple[str, ...]:
        """The fast fabrics that work here, fastest first."""
        return interfaces.fabrics(self.interfaces, self.ports)


def probe() -> NodeNetwork:
    host = socket.gethostname()
    return NodeNetwork(
        host=host,
        address=in_time(lambda: _resolve(host), SECONDS_FOR_A_NAME),
        interfaces=tuple(interfaces.interfaces()),
        ports=tuple(interfaces.ports()),
        cxi=tuple(sorted(os.listdir(CXI))) if os.path.isdir(CXI) else (),
    )


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except (OSError, UnicodeError):  # a name may be none that can be asked for
        return ""


def of_nodes(ranks: list[Record]) -> dict[str, NodeNetwork]:
    """Return the network of each node of a job, as its first rank saw it."""
    return {rank["host"]: _seen_by(rank) for rank in ranks if rank["local_rank"] == 0}


def _seen_by(record: Record) -> NodeNetwork:
    facts = [{**item, "addresses": tuple(item["addresses"])} for item in record["interfaces"]]
    cards, ports = [Interface(**card) for card in facts], [Port(**port) for port in record["ports"]]
    return NodeNetwork(record["host"], None, tuple(cards), tuple(ports))


ABOUT = About("network")


def check(network: NodeNetwork) -> list[Finding]:
    return [
        _fabric(network),
        _interfaces(network.interfaces),
        *dead_interfaces(network.interfaces),
        *dead_ports(network.ports),
        *_name(network),
    ]


def _fabric(network: NodeNetwork) -> Finding:
    fabrics = network.fabrics
    lines = [shown_port(port) for port in network.ports]
    lines += [shown(item) for item in network.interfaces if item.kind == "slingshot"]
    lines += [f"{name}: a Slingshot device" for name in network.cxi]
    evidence = "\n".join(lines) or "no ports in /sys/class/infiniband, no interface named hsn*"
    says = ", ".join(fabrics) if fabrics else "none here but Ethernet; nodes may have more (--job)"
    return ABOUT.ok("fabric", says, evidence)


def _interfaces(all: Iterable[Interface]) -> Finding:
    working = [item for item in all if item.works and item.kind != "loopback"]
    return ABOUT.either(
        bool(working),
        "interfaces",
        ", ".join(item.name for item in working),
        "none with a link and an address, apart from loopback",
        "\n".join(map(shown, working or all)),
        command("ip", "address"),
    )


def dead_interfaces(all: Iterable[Interface], where: str = "") -> list[Finding]:
    """Return a warning when an interface has an address, and so may be chosen, but no link."""
    dead = [item for item in all if item.dead]
    if not dead:
        return []
    alive = [item for item in all if item.works and item.kind in ("ethernet", "slingshot")]
    name = max(alive, key=lambda item: item.speed).name if alive else "NAME"
    says = f"{', '.join(item.name for item in dead)} has an address but no link{where}"
    fix = f"runner launch --network-interfaces {name} --env NCCL_SOCKET_IFNAME={name} ..."
    return [ABOUT.warning("dead interfaces", says, "\n".join(map(shown, dead)), fix)]


def dead_ports(all: Iterable[Port], where: str = "") -> list[Finding]:
    """Return a warning when a fabric's port does not work; one of two is often not cabled."""
    dead = [port for port in all if not port.works]
    if not dead:
        return []
    # "=" is for exact names, and stands once before them all (NCCL's user guide).
    alive = ",".join(port.name for port in all if port.works)
    says = f"{', '.join(port.name for port in dead)} is not active{where}"
    fix = f"runner launch --env NCCL_IB_HCA=={alive} ..." if alive else command("ibstat")
    return [ABOUT.warning("ports", says, "\n".join(map(shown_port, dead)), fix)]


def _name(network: NodeNetwork) -> list[Finding]:
    name = f"the name {network.host}"
    if not network.address:
        says = f"{name} does not resolve to an address"
        if network.address is None:
            says = f"{name} was not resolved within {SECONDS_FOR_A_NAME:.0f} s"
        return [ABOUT.warning("host name", says, "", command("getent", "hosts", network.host))]
    if not network.address.startswith("127.") and network.address != "::1":
        return []
    says = f"{name} resolves to loopback, {network.address}"
    evidence = "other nodes cannot connect to it; runner uses the route instead"
    fix = "runner launch --network-interfaces NAME ..., for programs that trust the name"
    return [ABOUT.warning("host name", says, evidence, fix)]


def shown(item: Interface) -> str:
    state = "up" if item.up and item.carrier else "no link" if item.up else "down"
    speed = f", {rate(item.speed)}" if item.speed else ""
    addresses = ", ".join(item.addresses) or "no address"
    return f"{item.name}: {item.kind}, {state}{speed}, {addresses}"


def rate(megabits: float) -> str:
    """Return a speed in Mbit/s as people say it."""
    return f"{megabits / 1000:g} Gbit/s" if megabits >= 1000 else f"{megabits:g} Mbit/s"


def shown_port(port: Port) -> str:
    return f"{port.name}: {port.kind}, {port.state.lower()}, {port.rate or 'rate unknown'}"
