"""One rank's part in the rendezvous: opened before the fork, and served by the parent.

The child asks its parent's store (join.py): at once where rank 0 is, and in hvd.init() to meet.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import addresses
from ... import failure_kinds as kinds
from .. import network
from ..problem import RendezvousError
from ..task import Task
from . import join, listeners, protocol
from .membership import NOBODY_ABSENT, Roll
from .protocol import Frame, Link, connect
from .store import Store

if TYPE_CHECKING:
    from .server import Hub

LONGEST_PAUSE = 1.0  # seconds between two looks for the hub


@dataclass(frozen=True)
class Place:
    """Where rank 0's server is to be, "" and 0 if nobody knows, and this rank's way to it.

    `interface` is empty where all ranks are on one host.
    """

    address: str
    port: int
    interface: str
    own_address: str


def held_port() -> socket.socket:
    """Hold a free port, until this process ends, for a server of the trainer's.

    Bound and never listening: with SO_REUSEADDR, which PyTorch's store and gRPC set too, their
    server may bind it as well (socket(7)), and the kernel gives it to nobody else.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("", 0))
    return sock


class Session:
    """A task's store, and on rank 0 the hub. Raises RendezvousError and OSError.

    The ranks wait for each other at most for `seconds`, and Gloo talks through one of the `wanted`
    interfaces; none means the one that leads to rank 0.
    """

    def __init__(
        self, task: Task, run_dir: str, seconds: float, wanted: Sequence[str] = ()
    ) -> None:
        self.task, self.run_dir, self.seconds, self.wanted = task, run_dir, seconds, wanted
        self.job = f"{task.job} {run_dir}"
        self.own = addresses.own()
        self.named = network.name_leads_to(self.own, socket.gethostname())
        self.can_rename = False
        self._see_wanted()
        self.secret = protocol.secret_of(run_dir)
        self.store = Store()
        self.listening: list[socket.socket] = []
        self.held = held_port()
        self.more: list[str] = []  # addresses to listen on when not all have come
        if task.rank == 0:
            self._listen()
        self.hub: Hub | None = None  # rank 0's, once it serves

    def _see_wanted(self) -> None:
        if not self.wanted or network.chosen(self.own, self.wanted, ""):
            return
        usable = [one for one in self.own if one.usable]
        names = list(dict.fromkeys(one.name for one in usable))
        text = (
            f"{self.task.host} has no interface {' or '.join(self.wanted)} with an address; "
            f"it has: {', '.join(map(str, usable)) or 'none but loopback'}"
        )
        raise RendezvousError(kinds.NO_INTERFACE, text, wanted=list(self.wanted), usable=names)

    def _listen(self) -> None:
        task = self.task
        first = [addresses.LOOPBACK]
        if not task.one_host:
            names = [task.host, task.first_host or task.host]
            others = [host for host in task.hosts if host != task.host][-1:]
            first, self.more = network.listening(self.own, names, others, self.wanted)
        self.listening = listeners.bind(first, self.job)
        port = self.listening[0].getsockname()[1]
        listeners.publish(self.run_dir, self.job, first + self.more, port)

    def serve(self) -> None:
        """Start to serve, in the parent."""
        if self.listening:
            from .server import Hub, Terms  # here, because no other rank needs it

            own = {one.address for one in self.own}
            port, one_host = self.held.getsockname()[1], self.task.one_host
            terms = Terms(self.listening, self.more, own, self.seconds, port, one_host)
            roll = Roll(self.task.size, self.task.hosts)
            self.hub = Hub(terms, self.secret, self.job, roll, _say)
            self.hub.start()
        self.store.start(self._find, self._gloo)

    def see_off(self) -> None:
        """Stay, in rank 0's parent, until each rank knows where rank 0 was: some start late.

        For the time at most that ranks wait for each other.
        """
        if self.hub is not None:
            self.hub.all_told.wait(self.seconds)

    def leave(self, may_rename: bool) -> None:
        """Close what only the parent serves, in the child, and prepare for a misleading name."""
        one_host = self.task.one_host
        sure = network.surely_misleading(self.own, self.named, self.wanted, one_host)
        # With GPUs not on mere suspicion: nobody has tried what shares memory between them there.
        gpus = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")
        doubt = len(network.usable(self.own)) > 1 and not one_host and not gpus
        if may_rename and (sure or doubt):
            self.can_rename = network.separate_host_name()
        self.store.sock.close()
        for sock in self.listening:
            sock.close()

    def place(self) -> Place:
        """Ask in the child where rank 0 is, and how Gloo gets there. Raises RendezvousError."""
        master, gloo = join.where(self.store.port, self.store.prefix)
        address = master["address"] if master else ""
        interface = gloo["interface"] or network.with_address(self.own, address)
        own = network.first_address(self.own, interface) or addresses.LOOPBACK
        return Place(address, master["port"] if master else 0, interface, own)

    def variables(self, place: Place) -> dict[str, str]:
        """Return Horovod's variables in the child, whose name will lead to the interface.

        Raises RendezvousError where it cannot.
        """
        self._lead_gloo_to(place.interface)
        # Without an interface Gloo takes the address that the host's own name leads to.
        gloo = {"HOROVOD_GLOO_IFACE": place.interface} if place.interface else {}
        return {**self.store.variables, **gloo}

    def cluster(self, place: Place) -> list[str]:
        """Return address and port of each rank's own server; the ports are held until then.

        Raises RendezvousError when not all ranks come.
        """
        port, prefix, task = self.store.port, self.store.prefix, self.task
        mine = f"{place.own_address}:{self.held.getsockname()[1]}"
        return join.everyone(port, prefix, mine, task.rank, task.size, self.seconds)

    def _lead_gloo_to(self, interface: str) -> None:
        """See to it that this host's name leads to the interface. Raises RendezvousError."""
        address = network.first_address(self.own, interface)
        if not network.misleading(self.own, interface, self.named, self.task.one_host):
            return
        if self.can_rename:
            socket.sethostname(address or addresses.LOOPBACK)
            return
        problem = (
            f"the name of {self.task.host} leads to {self.named or 'no address of it'}, where "
            f"Horovod's Gloo goes, and not to {interface} ({address})"
        )
        if not self.named or self.named.startswith("127."):
            text = f"{problem}: correct it in /etc/hosts, or use MPI"
            raise RendezvousError(kinds.MISLEADING_NAME, text, interface=interface)
        _say(f"runner: warning: {problem}")

    def _find(self) -> Link:
        """Look for the hub until `seconds` after Horovod has asked for it."""
        task, deadline, pause = self.task, None, 0.05
        who = {name: getattr(task, name) for name in ("rank", "size", "host", "local_rank")}
        hello = Frame(protocol.HELLO, value=json.dumps(who).encode())
        while True:
            places = listeners.endpoints(task.first_host, task.one_host, self.job, self.run_dir)
            link = connect(places, self.secret, self.job)
            if link is not None:
                with contextlib.suppress(OSError):  # the hub has gone by now
                    link.send(hello)
                    return link
            if deadline is None and self.store.asked:
                deadline = time.monotonic() + self.seconds
            if deadline is not None and time.monotonic() > deadline:
                raise self._nobody(places)
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _nobody(self, places: Sequence[tuple[str, int]]) -> RendezvousError:
        where = f" on {self.task.first_host}" if self.task.first_host else ""
        tried = ", ".join(dict.fromkeys(address for address, _ in places))
        text = (
            f"rank 0{where} did not answer within {self.seconds:.0f} s: it has not "
            f"started, or no way leads there (tried: {tried or 'no address is known'})"
        )
        fields = {**NOBODY_ABSENT, "unreached": [[0, self.task.first_host]]}
        return RendezvousError(kinds.NOT_MET, text, **fields)

    def _gloo(self, link: Link) -> dict[str, str]:
        """Return Gloo's interface and address; empty where rank 0's host shall decide.

        A link from another host has proven that its interface leads to rank 0. A link within rank
        0's own host proves nothing: its ranks take the interface that the other hosts reach.
        """
        here = link.sock.getpeername()[0] in {one.address for one in self.own}
        name = "" if here else network.with_address(self.own, link.sock.getsockname()[0])
        if self.wanted:
            name = network.chosen(self.own, self.wanted, name)
        return {"interface": name, "address": network.first_address(self.own, name)}


def _say(text: str) -> None:
    print(text, flush=True)
