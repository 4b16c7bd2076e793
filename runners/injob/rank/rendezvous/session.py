"""A rank's part in the rendezvous: it is opened before the fork, and served by the parent.

    Horovod -- HTTP, loopback --> its rank's proxy -- one proven link --> the hub of rank 0

The parent of each task keeps the `proxy`, with a link to the hub; rank 0's also the `hub`, which
knows the ranks and the values that they store (`hub_state`). `connections` serves each in
one thread. `protocol` is what they send each other, and keeps others out. The child asks its
parent's proxy over loopback: at once for rank 0's address, and in hvd.init() to meet.

What remains open is Gloo's own: the sockets between ranks, which Horovod opens without any proof,
and everything in clear text. Root and the same user can read the secret.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....contract.failure_kinds import FailureKind
from ....contract.interfaces import LOOPBACK
from ...problems import RendezvousError
from ...task import Task
from .. import network
from . import protocol
from .endpoint import Endpoint
from .proxy import Proxy

if TYPE_CHECKING:
    from .hub import Hub

SECONDS_TO_TELL = 10.0


@dataclass(frozen=True)
class MasterAddress:
    """Where rank 0's server is to be, "" and 0 if unknown, and this rank's interface to it.

    `interface` is empty where all ranks are on one host.
    """

    address: str
    port: int
    interface: str


class RendezvousSession(Endpoint):
    """A task's proxy, and on rank 0 the hub. Raises RendezvousError and OSError."""

    def __init__(
        self, task: Task, run_dir: str, seconds: float, interfaces: Sequence[str] = ()
    ) -> None:
        super().__init__(task, run_dir, seconds, interfaces)
        self.named = network.name_leads_to(self.addresses, socket.gethostname())
        self.can_rename = False
        self.proxy = Proxy()
        self.hub: Hub | None = None  # rank 0's, once it serves

    def serve(self) -> None:
        if self.listening:
            from .hub import Hub  # here, because no other rank needs it

            self.hub = Hub(self)
            self.hub.start()
        self.proxy.start(self)

    def see_off(self) -> None:
        """Wait in rank 0's parent until each rank knows rank 0's address: some start late.

        It waits at most as long as ranks wait for each other.
        """
        if self.hub is not None:
            self.hub.all_places_sent.wait(self.seconds)

    def leave(self, may_rename: bool) -> None:
        """Close in the child what only the parent serves, and prepare for a misleading name."""
        one_host = self.task.one_host
        sure = network.surely_misleading(self.addresses, self.named, self.interfaces, one_host)
        # With GPUs not on mere suspicion: nobody has tried what shares memory between them there.
        gpus = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")
        doubt = len(network.usable(self.addresses)) > 1 and not one_host and not gpus
        if may_rename and (sure or doubt):
            self.can_rename = network.separate_host_name()
        self.proxy.sock.close()
        for sock in self.listening + self.later_listening:
            sock.close()

    def master_address(self) -> MasterAddress:
        """Ask in the child for rank 0's address and the interface to it. Raises RendezvousError."""
        master, gloo = _answered(self.proxy.port, self.proxy.prefix, protocol.PLACE)
        address = master["address"] if master else ""
        interface = gloo["interface"] or network.with_address(self.addresses, address)
        return MasterAddress(address, master["port"] if master else 0, interface)

    def variables(self, place: MasterAddress) -> dict[str, str]:
        """Return Horovod's variables, and make this host's name lead to the interface.

        Raises RendezvousError where that is impossible.
        """
        self._lead_gloo_to(place.interface)
        # Without an interface Gloo takes the address that the host's own name leads to.
        gloo = {"HOROVOD_GLOO_IFACE": place.interface} if place.interface else {}
        return {**self.proxy.variables, **gloo}

    def cluster(self, place: MasterAddress) -> list[str]:
        """Return address and port of each rank's own server; the ports are held until then.

        Raises RendezvousError if a rank is missing, or another user listens on this rank's port.
        """
        if problem := network.foreign_listener(self.trainer_port):
            raise RendezvousError(problem.kind, problem.text, **problem.fields)
        own = network.first_address(self.addresses, place.interface) or LOOPBACK
        mine = f"{own}:{self.trainer_port.getsockname()[1]}"
        met, _ = _answered(self.proxy.port, self.proxy.prefix, protocol.MEET, mine)
        servers: list[str] = met["servers"]
        return servers

    def tell(self, text: str, last: bool = False) -> None:
        """Send a text to rank 0's shim. Raises OSError.

        A `last` one has arrived on return, unless rank 0 has ended or is nowhere to be found.
        """
        self._put(protocol.LAST if last else protocol.TELL, text)

    def decide(self, text: str) -> None:
        """Send rank 0's verdict to the other ranks' shims. Raises OSError."""
        self._put(protocol.VERDICT, text)

    def _put(self, name: str, text: str) -> None:
        path = self.proxy.prefix + name
        _request(self.proxy.port, "PUT", path, text.encode(), SECONDS_TO_TELL)

    def _lead_gloo_to(self, interface: str) -> None:
        """Make this host's name lead to the interface. Raises RendezvousError."""
        address = network.first_address(self.addresses, interface)
        if not network.misleading(self.addresses, interface, self.named, self.task.one_host):
            return
        if self.can_rename:
            socket.sethostname(address or LOOPBACK)
            return
        problem = (
            f"the name of {self.task.host} leads to {self.named or 'no address of it'}, where "
            f"Horovod's Gloo goes, and not to {interface} ({address})"
        )
        if not self.named or self.named.startswith("127."):
            text = f"{problem}: correct it in /etc/hosts, or use MPI"
            raise RendezvousError(FailureKind.MISLEADING_NAME, text, interface=interface)
        self.say(f"runner: warning: {problem}")


def meet(port: int, prefix: str) -> dict[str, str]:
    """Wait until all ranks are here; return Horovod's variables for this rank.

    Raises RendezvousError that names the missing ranks.
    """
    met, _ = _answered(port, prefix, protocol.MEET)
    return {f"HOROVOD_{name.upper()}": str(value) for name, value in met["place"].items()}


def _answered(port: int, prefix: str, name: str, body: str = "") -> tuple[Any, dict[str, str]]:
    """Return the hub's answer, None without one, and Gloo's interface and address here."""
    answer: dict[str, Any] = json.loads(_request(port, "GET", prefix + name, body.encode()))
    if problem := answer["problem"]:
        kind = FailureKind(problem["kind"])
        raise RendezvousError(kind, problem["text"], **problem["fields"])
    return answer["answer"], answer["gloo"]


def _request(
    port: int, method: str, path: str, body: bytes = b"", seconds: float | None = None
) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), seconds) as sock:
        sock.sendall(head.encode() + body)
        data = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    return data.partition(b"\r\n\r\n")[2]
