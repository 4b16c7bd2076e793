"""Reads the network interfaces of this host, their addresses, fabric ports, and addresses of names.

The kernel tells addresses through netlink (rtnetlink(7)), which getifaddrs(3) uses too: the
standard library has no such call, and ctypes is not in every image. They are in the order in which
Gloo sees them. The rest is from /sys (Documentation/ABI/testing/sysfs-class-net and
sysfs-class-infiniband in the Linux sources).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .run_files import read

RTM_GETADDR, RTM_NEWADDR = 22, 20  # linux/rtnetlink.h
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300  # linux/netlink.h
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFA_ADDRESS, IFA_LOCAL = 1, 2  # linux/if_addr.h
LOOPBACK = "127.0.0.1"
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface's index
ATTRIBUTE = struct.Struct("=HH")  # length, type
UP = 0x1  # linux/if.h, IFF_UP
ARPHRD = {"1": "ethernet", "32": "ipoib", "772": "loopback"}  # linux/if_arp.h
# Those that no other node is behind, by the driver's or the kernel's name for them.
VIRTUAL = ("docker", "virbr", "br-", "cni", "flannel", "tun", "tap", "wg", "dummy")
NET, INFINIBAND = "/sys/class/net", "/sys/class/infiniband"


@dataclass(frozen=True)
class InterfaceAddress:
    """One address of one interface: the same `name` comes once for each of its addresses."""

    name: str
    address: str

    @property
    def link_only(self) -> bool:
        """Whether it is an IPv6 address that needs a zone, which no URL has."""
        return self.address.lower().startswith("fe80:")

    @property
    def usable(self) -> bool:
        """Whether other hosts may reach this one by it."""
        return not is_loopback(self.address) and not self.link_only

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def own_addresses() -> list[InterfaceAddress]:
    """Return all addresses of this host, IPv4 before IPv6. Raises OSError."""
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        body = ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        length = HEADER.size + len(body)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        sock.send(HEADER.pack(length, RTM_GETADDR, flags, 1, 0) + body)
        return [address for message in _messages(sock) for address in _parse(message, names)]


def network() -> str:
    """Return a name of this host's network that no other host has; addresses are not unique."""
    name = read("/proc/sys/kernel/random/boot_id").strip()
    with contextlib.suppress(OSError):  # where /proc is not mounted
        name += os.readlink("/proc/self/ns/net")
    return name


def _messages(sock: socket.socket) -> list[bytes]:
    """Read the answer to its end; return the bodies of the messages about addresses."""
    bodies: list[bytes] = []
    while True:
        for kind, body in _records(sock.recv(1 << 17), HEADER):
            if kind == NLMSG_DONE:
                return bodies
            if kind == NLMSG_ERROR:
                raise OSError("the kernel does not list the addresses of this host")
            if kind == RTM_NEWADDR:
                bodies.append(body)


def _records(data: bytes, head: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Return kind and body of each record: a head with length and kind, padded to four bytes."""
    while len(data) >= head.size:
        length, kind = head.unpack_from(data)[:2]
        yield kind, data[head.size : length]
        data = data[(length + 3) & ~3 :]


def _parse(body: bytes, names: dict[int, str]) -> list[InterfaceAddress]:
    """Return the address in a message, if it is one of IPv4 or IPv6."""
    family, _, _, _, index = ADDRESS.unpack_from(body)
    attributes = dict(_records(body[ADDRESS.size :], ATTRIBUTE))
    # On a point-to-point link IFA_ADDRESS is the other end's, IFA_LOCAL ours.
    raw = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
    if family not in (socket.AF_INET, socket.AF_INET6) or raw is None or index not in names:
        return []
    return [InterfaceAddress(names[index], socket.inet_ntop(family, raw))]


def is_loopback(address: str) -> bool:
    """Whether only processes of this host reach the address; also true where it is empty."""
    return not address or address == "::1" or address.startswith("127.")


def addresses_of(name: str) -> list[str]:
    """Return the addresses of a name, loopback included; none when it has none."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def resolve(name: str) -> list[str]:
    """Return the addresses of a name, loopback left out."""
    return [address for address in addresses_of(name) if not is_loopback(address)]


def source_towards(address: str) -> str:
    """Return the address from which this host would talk to `address`; empty without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, 9))  # sends nothing: the kernel only chooses the route
        except OSError:
            return ""
        return str(sock.getsockname()[0])


def towards(host: str) -> str:
    """Return this host's address on the way to `host`, the machine where the job was submitted.

    If that name does not resolve, it is the address of this host's own name, or else loopback.
    """
    candidates = [*map(source_towards, resolve(host)), *resolve(socket.gethostname())]
    return next(
        (address for address in candidates if InterfaceAddress("", address).usable), LOOPBACK
    )


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
        """The name that libraries use, such as mlx5_0:1."""
        return f"{self.device}:{self.number}"

    @property
    def works(self) -> bool:
        """Whether it can carry data."""
        return self.state == "ACTIVE"


def interfaces(
    net: str = NET, addresses: Sequence[InterfaceAddress] | None = None
) -> list[Interface]:
    """Return the interfaces of this node, by name; `addresses` are its own. Raises OSError."""
    addresses = own_addresses() if addresses is None else addresses
    return [_interface(net, name, addresses) for name in _names(net)]


def _interface(net: str, name: str, addresses: Sequence[InterfaceAddress]) -> Interface:
    folder = os.path.join(net, name)
    flags, speed = _text(folder, "flags") or "0", _text(folder, "speed")
    return Interface(
        name=name,
        kind=kind_of(name, _text(folder, "type")),
        up=bool(int(flags, 16) & UP),
        carrier=_text(folder, "carrier") == "1",
        speed=int(speed) if speed.isdigit() else 0,
        addresses=tuple(
            entry.address for entry in addresses if entry.name == name and not entry.link_only
        ),
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
    layer = _text(folder, "link_layer")
    kind = {"InfiniBand": "infiniband", "Ethernet": "roce"}.get(layer, layer.lower() or "unknown")
    if device.startswith("efa") or _driver(os.path.join(root, device)) == "efa":
        kind = "efa"
    rate = _text(folder, "rate")
    state = _text(folder, "state").partition(":")[2].strip()  # "4: ACTIVE"
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


def _text(folder: str, name: str) -> str:
    """Return the text of a kernel's file, "" where it cannot be read.

    Reading `speed` or `carrier` of an interface that is down is an error (EINVAL).
    """
    return read(os.path.join(folder, name)).strip()
