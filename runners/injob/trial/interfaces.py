"""Interfaces and fabric ports of this node, from /sys and the kernel's list of addresses.

Documentation/ABI/testing/sysfs-class-net and sysfs-class-infiniband in the Linux sources.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .. import addresses
from ..addresses import Address
from ..run_files import read

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
