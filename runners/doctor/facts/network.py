"""The network of this node: interfaces, fabric ports, and where its own name leads."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from ...injob.trial import interfaces
from ...injob.trial.interfaces import Interface, Port
from ..question import in_time

SECONDS_FOR_A_NAME = 5.0
CXI = "/sys/class/cxi"


@dataclass(frozen=True)
class Network:
    """What a node is connected to.

    `address` is what the host name leads to, "" when it leads nowhere, None when the resolver did
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


def look() -> Network:
    """Ask this machine."""
    host = socket.gethostname()
    return Network(
        host=host,
        address=in_time(lambda: _resolve(host), SECONDS_FOR_A_NAME),
        interfaces=tuple(interfaces.interfaces()),
        ports=tuple(interfaces.ports()),
        cxi=tuple(sorted(os.listdir(CXI))) if os.path.isdir(CXI) else (),
    )


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError:
        return ""
