"""The network interfaces of this host and their addresses, in the order in which Gloo sees them.

Asked of the kernel through netlink (rtnetlink(7)), which getifaddrs(3) asks too: the standard
library has no such call, and ctypes is not in every image.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

RTM_GETADDR, RTM_NEWADDR = 22, 20  # linux/rtnetlink.h
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300  # linux/netlink.h
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFA_ADDRESS, IFA_LOCAL = 1, 2  # linux/if_addr.h
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, interface's index
ATTRIBUTE = struct.Struct("=HH")  # length, type
RT_SCOPE_LINK = 253


@dataclass(frozen=True)
class Interface:
    """One address of one interface; `link_only` means an IPv6 address that needs a zone (fe80::).

    The same `name` comes once for each of its addresses.
    """

    name: str
    address: str
    family: socket.AddressFamily
    loopback: bool
    link_only: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def interfaces() -> list[Interface]:
    """Return all addresses of this host, IPv4 before IPv6. Raises OSError."""
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        body = ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        length = HEADER.size + len(body)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        sock.send(HEADER.pack(length, RTM_GETADDR, flags, 1, 0) + body)
        return [one for message in _messages(sock) for one in _parse(message, names)]


def _messages(sock: socket.socket) -> list[bytes]:
    """Read the answer to its end; return the bodies of the messages about addresses."""
    bodies: list[bytes] = []
    while True:
        data = sock.recv(1 << 17)
        while data:
            length, kind = HEADER.unpack_from(data)[:2]
            if kind == NLMSG_DONE:
                return bodies
            if kind == NLMSG_ERROR:
                raise OSError("the kernel does not list the addresses of this host")
            if kind == RTM_NEWADDR:
                bodies.append(data[HEADER.size : length])
            data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _parse(body: bytes, names: dict[int, str]) -> list[Interface]:
    """Return the address in a message, if it is one of IPv4 or IPv6."""
    number, _, _, scope, index = ADDRESS.unpack_from(body)
    found = _attributes(body[ADDRESS.size :])
    # On a point-to-point link IFA_ADDRESS is the other end's, IFA_LOCAL ours.
    raw = found.get(IFA_LOCAL) or found.get(IFA_ADDRESS)
    if number not in (socket.AF_INET, socket.AF_INET6) or raw is None or index not in names:
        return []
    family = socket.AddressFamily(number)
    address = socket.inet_ntop(family, raw)
    loopback = address == "::1" or address.startswith("127.")
    link_only = family == socket.AF_INET6 and scope == RT_SCOPE_LINK
    return [Interface(names[index], address, family, loopback, link_only)]


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        found[kind] = data[ATTRIBUTE.size : length]
        data = data[_aligned(length) :]
    return found
