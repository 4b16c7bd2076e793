"""One network namespace per node, joined by veth pairs to a bridge.

The bridge lives in a namespace of its own, `switch`, so the host gets no interface and no address,
and any number of clusters can exist side by side with the same addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from .design import DEAD_INTERFACE, IPV6_NAMES, IPV6_ONLY, LOOPBACK_NAME, Design
from .shell import run

NETWORK = ipaddress.IPv4Network("10.77.0.0/16")
NETWORK6 = ipaddress.IPv6Network("fd77::/64")
DEAD_NETWORK = ipaddress.IPv4Network("10.66.0.0/16")
DEAD_NAME = "eno1"  # sorts before eth0, and is made before it
SWITCH = "switch"


def addresses(hosts: Sequence[str]) -> dict[str, str]:
    """Host name -> its IPv4 address; the first host gets .1 of NETWORK."""
    return _addresses(NETWORK, hosts)


def _addresses(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, hosts: Sequence[str]
) -> dict[str, str]:
    return {name: str(network[index]) for index, name in enumerate(hosts, start=1)}


def known_addresses(design: Design) -> dict[str, str]:
    """Host name -> the address that it resolves to on other nodes."""
    six = design.has(IPV6_NAMES) or design.has(IPV6_ONLY)
    return _addresses(NETWORK6 if six else NETWORK, design.hosts)


def hosts_file(design: Design, node: str) -> str:
    """/etc/hosts of *node*. Debian's installer, too, gives a machine's own name 127.0.1.1."""
    known = known_addresses(design)
    if design.has(LOOPBACK_NAME):
        known[node] = "127.0.1.1"
    lines = [f"{address} {name}" for name, address in known.items()]
    return "\n".join(["127.0.0.1 localhost", "::1 ip6-localhost", *lines]) + "\n"


def create(folder: Path, design: Design) -> None:
    """Make a connected namespace for each host, mounted on a file in *folder*."""
    for name in (SWITCH, *design.hosts):
        path = folder / name
        path.touch()
        run(["unshare", f"--net={path}", "true"])
    _ip(folder, SWITCH, "link", "add", "br0", "type", "bridge")
    _ip(folder, SWITCH, "link", "set", "br0", "up")
    for name in design.hosts:
        _ip(folder, name, "link", "set", "lo", "up")
        if design.has(DEAD_INTERFACE):
            _cable(folder, name, f"dead-{name}", DEAD_NAME)
        _cable(folder, name, f"to-{name}", "eth0")
        _ip(folder, SWITCH, "link", "set", f"to-{name}", "master", "br0")
        for device, address in interface_addresses(design, name):
            _ip(folder, name, "address", "add", address, "dev", device, "nodad")


def _cable(folder: Path, node: str, end: str, device: str) -> None:
    """Join *device* of *node* to the switch's *end*; one that is in no bridge leads nowhere."""
    peer = ("peer", "name", device, "netns", str(folder / node))
    _ip(folder, SWITCH, "link", "add", end, "type", "veth", *peer)
    _ip(folder, SWITCH, "link", "set", end, "up")
    _ip(folder, node, "link", "set", device, "up")


def cut(folder: Path, node: str) -> None:
    """Pull the cable of *node*: its packets are lost, and nobody is told."""
    _ip(folder, SWITCH, "link", "set", f"to-{node}", "down")


def restore(folder: Path, node: str) -> None:
    """Plug the cable in again."""
    _ip(folder, SWITCH, "link", "set", f"to-{node}", "up")


def forget(folder: Path, node: str) -> None:
    """Let a node that boots know no neighbours.

    While it was cut off its kernel asked for them in vain, and would refuse its first connections.
    """
    _ip(folder, node, "neighbour", "flush", "all")


def interface_addresses(design: Design, node: str) -> list[tuple[str, str]]:
    """(interface, address with prefix length) of *node*, in the order in which they are given."""
    found = []
    if design.has(DEAD_INTERFACE):
        found.append((DEAD_NAME, _with_prefix(DEAD_NETWORK, design, node)))
    if not design.has(IPV6_ONLY):
        found.append(("eth0", _with_prefix(NETWORK, design, node)))
    if design.has(IPV6_ONLY) or design.has(IPV6_NAMES):
        found.append(("eth0", _with_prefix(NETWORK6, design, node)))
    return found


def _with_prefix(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, design: Design, node: str
) -> str:
    return f"{_addresses(network, design.hosts)[node]}/{network.prefixlen}"


def _ip(folder: Path, name: str, *words: str) -> None:
    run(["nsenter", f"--net={folder / name}", "ip", *words])
