"""Interfaces and fabric ports of this node, and which of them this process talks over, from /sys
and the kernel's lists of addresses and connections.

Documentation/ABI/testing/sysfs-class-net and sysfs-class-infiniband in the Linux sources.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import addresses
from ..addresses import Address
from ..run_files import read

ESTABLISHED = "01"
UP = 0x1  # linux/if.h, IFF_UP
ARPHRD = {"1": "ethernet", "32": "ipoib", "772": "loopback"}  # linux/if_arp.h
# Those that no other node is behind, by the driver's or the kernel's name for them.
VIRTUAL = ("docker", "virbr", "br-", "cni", "flannel", "tun", "tap", "wg", "dummy")
NET, INFINIBAND = "/sys/class/net", "/sys/class/infiniband"


@dataclass(frozen=True)
class Interface:
    """A network interface.

    `kind` is ethernet, ipoib (IP over InfiniBand), slingshot, loopback, virtual or other; `up` is
    what the administrator wants and `carrier` whether there is a link; `speed` is in Mbit/s, 0
    when the driver does not say. Addresses are IPv4 first, link-local ones left out.
    """

    name: str
    kind: str
    up: bool
    carrier: bool
    speed: int = 0
    addresses: tuple[str, ...] = ()
    driver: str = ""

    @property
    def works(self) -> bool:
        """Whether it can carry data: up, with a link and an address."""
        return self.up and self.carrier and bool(self.addresses)

    @property
    def dead(self) -> bool:
        """Whether it has an address, and so looks usable to a library, but no link."""
        return bool(self.addresses) and not (self.up and self.carrier)


@dataclass(frozen=True)
class Port:
    """A port that the verbs library sees; `kind` is infiniband, roce or efa.

    `state` is ACTIVE, DOWN, ...; `speed` is in Gbit/s, 0 when unknown; `rate` the kernel's words.
    """

    device: str
    number: str
    kind: str
    state: str
    rate: str = ""
    speed: float = 0.0

    @property
    def name(self) -> str:
        """As libraries write it, such as mlx5_0:1."""
        return f"{self.device}:{self.number}"

    @property
    def works(self) -> bool:
        """Whether it can carry data."""
        return self.state == "ACTIVE"


def interfaces(net: str = NET, own: Sequence[Address] | None = None) -> list[Interface]:
    """Return the interfaces of this node, by name; `own` are its addresses. Raises OSError."""
    own = addresses.own() if own is None else own
    return [_interface(net, name, own) for name in _names(net)]


def _interface(net: str, name: str, own: Sequence[Address]) -> Interface:
    folder = os.path.join(net, name)
    flags, speed = text_of(folder, "flags") or "0", text_of(folder, "speed")
    return Interface(
        name=name,
        kind=kind_of(name, text_of(folder, "type")),
        up=bool(int(flags, 16) & UP),
        carrier=text_of(folder, "carrier") == "1",
        speed=int(speed) if speed.isdigit() else 0,
        addresses=tuple(one.address for one in own if one.name == name and not one.link_only),
        driver=_driver(folder),
    )


def _driver(folder: str) -> str:
    """Return the name of a device's driver, "" without one."""
    link = os.path.join(folder, "device", "driver")
    return os.path.basename(os.readlink(link)) if os.path.islink(link) else ""


def kind_of(name: str, hardware: str) -> str:
    """Return the kind of an interface; HPE calls Slingshot's hsn0, hsn1, ... on all its systems."""
    if name.startswith("hsn"):
        return "slingshot"
    if name.startswith(VIRTUAL):
        return "virtual"
    return ARPHRD.get(hardware, "other")


def ports(root: str = INFINIBAND) -> list[Port]:
    """Return the ports of InfiniBand, RoCE and EFA devices."""
    return [
        _port(root, device, number)
        for device in _names(root)
        for number in _names(os.path.join(root, device, "ports"))
    ]


def _port(root: str, device: str, number: str) -> Port:
    folder = os.path.join(root, device, "ports", number)
    layer = text_of(folder, "link_layer")
    kind = {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(layer, layer.lower() or "unknown")
    if device.startswith("efa") or _driver(os.path.join(root, device)) == "efa":
        kind = "efa"
    rate = text_of(folder, "rate")
    state = text_of(folder, "state").partition(":")[2].strip()  # "4: ACTIVE"
    return Port(device, number, kind, state or "unknown", rate, parse_rate(rate))


def parse_rate(text: str) -> float:
    """Return Gbit/s of the kernel's "200 Gb/sec (4X HDR)"."""
    first = text.split(" ")[0]
    return float(first) if first.replace(".", "", 1).isdigit() else 0.0


def fabrics(interfaces: Sequence[Interface], ports: Sequence[Port]) -> tuple[str, ...]:
    """Return the fast fabrics that work here: infiniband, roce, efa, slingshot; fastest first."""
    works = sorted((port for port in ports if port.works), key=lambda port: port.speed)
    speeds = {port.kind: port.speed for port in works}
    for item in interfaces:
        if item.kind == "slingshot" and item.works:
            speeds["slingshot"] = item.speed / 1000
    return tuple(sorted(speeds, key=lambda kind: -speeds[kind]))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # the kernel has no such devices, or hides them
        return []


def text_of(*parts: str) -> str:
    """Return what a file of the kernel holds, "" where it cannot be read.

    Reading `speed` or `carrier` of an interface that is down is an error (EINVAL).
    """
    return read(os.path.join(*parts)).strip()


def connections(interfaces: Iterable[Interface]) -> dict[str, int]:
    """Return the number of this process's connections to other addresses, by interface.

    Gloo says nothing about the network it uses, but this shows it (proc(5), /proc/net/tcp).
    """
    names = {address: item.name for item in interfaces for address in item.addresses}
    inodes = socket_inodes()
    tables = (text_of("/proc/self/net/tcp"), text_of("/proc/self/net/tcp6"))
    rows = [row for table in tables for row in parse_connections(table)]
    mine = [local for local, remote, inode in rows if inode in inodes and local != remote]
    return dict(Counter(names.get(local, local) for local in mine))


def parse_connections(text: str) -> list[tuple[str, str, str]]:
    """Return local address, remote address and inode of each established connection."""
    established = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == ESTABLISHED:
            established.append((shown_address(words[1]), shown_address(words[2]), words[9]))
    return established


def shown_address(text: str) -> str:
    """Return the address in `0B004D0A:1F90`: words of 32 bits as they lie in memory."""
    digits = text.partition(":")[0]
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    shown = socket.inet_ntop(socket.AF_INET6, raw)
    return shown[len("::ffff:") :] if shown.startswith("::ffff:") else shown


def socket_inodes() -> set[str]:
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed since the folder was listed
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    return inodes
