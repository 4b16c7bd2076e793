"""The addresses of this host, by interface, in the order in which Gloo sees them; and names' own.

Asked of the kernel through netlink (rtnetlink(7)), which getifaddrs(3) asks too: the standard
library has no such call, and ctypes is not in every image.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from . import run_files

RTM_GETADDR, RTM_NEWADDR = 22, 20  # linux/rtnetlink.h
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300  # linux/netlink.h
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFA_ADDRESS, IFA_LOCAL = 1, 2  # linux/if_addr.h
LOOPBACK = "127.0.0.1"
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface's index
ATTRIBUTE = struct.Struct("=HH")  # length, type
RT_SCOPE_LINK = 253


@dataclass(frozen=True)
class Address:
    """One address of one interface; `link_only` means an IPv6 address that needs a zone (fe80::).

    The same `name` comes once for each of its addresses.
    """

    name: str
    address: str
    family: socket.AddressFamily
    loopback: bool
    link_only: bool

    @property
    def usable(self) -> bool:
        """Whether other hosts may reach this one by it."""
        return not self.loopback and not self.link_only

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def own() -> list[Address]:
    """Return all addresses of this host, IPv4 before IPv6. Raises OSError."""
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        body = ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        length = HEADER.size + len(body)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        sock.send(HEADER.pack(length, RTM_GETADDR, flags, 1, 0) + body)
        return [one for message in _messages(sock) for one in _parse(message, names)]


def network() -> str:
    """Return a name of this host's network, which no other host has; its addresses another may."""
    name = run_files.read("/proc/sys/kernel/random/boot_id").strip()
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


def _parse(body: bytes, names: dict[int, str]) -> list[Address]:
    """Return the address in a message, if it is one of IPv4 or IPv6."""
    number, _, _, scope, index = ADDRESS.unpack_from(body)
    attributes = dict(_records(body[ADDRESS.size :], ATTRIBUTE))
    # On a point-to-point link IFA_ADDRESS is the other end's, IFA_LOCAL ours.
    raw = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
    if number not in (socket.AF_INET, socket.AF_INET6) or raw is None or index not in names:
        return []
    family = socket.AddressFamily(number)
    address = socket.inet_ntop(family, raw)
    link_only = family == socket.AF_INET6 and scope == RT_SCOPE_LINK
    return [Address(names[index], address, family, is_loopback(address), link_only)]


def is_loopback(address: str) -> bool:
    """Whether only processes of this host reach it; so too where there is none."""
    return not address or address == "::1" or address.startswith("127.")


def resolve(name: str) -> list[str]:
    """Return the addresses of a name, loopback left out; none when it has none."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = dict.fromkeys(str(entry[4][0]) for entry in entries)
    return [one for one in addresses if not is_loopback(one)]


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

    If that name does not resolve, the one to which the own name resolves; else loopback. Link-local
    ones need a zone, which no URL has.
    """
    candidates = [source_towards(address) for address in resolve(host)] + resolve(
        socket.gethostname()
    )
    usable = (
        one for one in candidates if not is_loopback(one) and not one.lower().startswith("fe80:")
    )
    return next(usable, LOOPBACK)
