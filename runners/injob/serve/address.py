"""The address of this node at which the login node reaches it."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def towards(host: str) -> str:
    """Return this node's address on the way to `host`, the machine where the job was submitted.

    Where that name leads nowhere, the one to which the node's own name leads; else loopback.
    """
    own = [_source(address) for address in _resolved(host)]
    own += _resolved(socket.gethostname())
    return next((address for address in own if not is_loopback(address)), LOOPBACK)


def is_loopback(address: str) -> bool:
    """Whether only processes of this node reach it; so too where there is none."""
    return not address or address == "::1" or address.startswith("127.")


def _resolved(host: str) -> list[str]:
    """Return the addresses of a name; link-local ones need a zone, which no URL has."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = [str(entry[4][0]) for entry in found]
    return [one for one in dict.fromkeys(addresses) if not one.lower().startswith("fe80:")]


def _source(address: str) -> str:
    """Return the address from which this node would talk to another; "" without a route."""
    if is_loopback(address):
        return ""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # sends nothing: the kernel only chooses the way
        except OSError:
            return ""
        return str(probe.getsockname()[0])
