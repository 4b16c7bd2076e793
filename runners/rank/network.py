"""Which address and interface this host uses to reach another."""

from __future__ import annotations

import fcntl
import socket
import struct

SIOCGIFADDR = 0x8915  # linux/sockios.h: an interface's IPv4 address


def own_address(host: str, one_host: bool) -> str:
    """Return the address on which rank 0's server shall listen.

    Loopback when all ranks share this host. Empty (every address) when the host's own name
    leads to loopback, as Debian's /etc/hosts does with 127.0.1.1, since others could not come in.
    """
    if one_host:
        return "127.0.0.1"
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return ""
    return "" if address.startswith("127.") else address


def interface_towards(address: str) -> str | None:
    """Return the name of the interface through which this host talks to `address`, if any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, 9))  # sends nothing: the kernel only chooses the route
        mine = sock.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address_of(sock, name) == mine:
                return name
    return None


def _address_of(sock: socket.socket, interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    try:
        answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, request)
    except OSError:
        return None  # the interface has no IPv4 address
    return socket.inet_ntoa(answer[20:24])
