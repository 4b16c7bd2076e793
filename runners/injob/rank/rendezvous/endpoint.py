"""A rank's end of the rendezvous: its addresses and sockets, the secret, and its mail."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import Callable

from ....contract.failure_kinds import FailureKind
from ....contract.interfaces import LOOPBACK, own_addresses
from ...problems import Problem, RendezvousError
from ...task import Task
from .. import network
from . import connections, protocol
from .connections import Connection
from .hub_state import NOBODY_ABSENT


class Endpoint:
    """One rank's end. The ranks wait for each other at most for `seconds`. Gloo uses one of the
    `interfaces`, or without any the one that leads to rank 0.
    """

    def __init__(
        self, task: Task, run_dir: str, seconds: float, interfaces: Sequence[str] = ()
    ) -> None:
        self.task, self.run_dir, self.seconds, self.interfaces = task, run_dir, seconds, interfaces
        self.job = f"{task.job} {run_dir}"
        self.who = {name: getattr(task, name) for name in ("rank", "size", "host", "local_rank")}
        self.addresses = own_addresses()
        self.own = {entry.address for entry in self.addresses}
        self._check_interfaces()
        self.secret = protocol.secret_of(run_dir)
        self.trainer_port = network.hold_port()
        self.listening: list[socket.socket] = []
        self.later_listening: list[socket.socket] = []  # to listen on too when not all have come
        if task.rank == 0:
            self._listen()
        # What ranks told rank 0, and with no rank what it has decided; then `wake` is called.
        self.mail: deque[tuple[int | None, bytes]] = deque()
        self.wake: Callable[[], None] = lambda: None

    def _check_interfaces(self) -> None:
        if not self.interfaces or network.chosen(self.addresses, self.interfaces, ""):
            return
        usable = [entry for entry in self.addresses if entry.usable]
        names = list(dict.fromkeys(entry.name for entry in usable))
        text = (
            f"{self.task.host} has no interface {' or '.join(self.interfaces)} with an address; "
            f"it has: {', '.join(map(str, usable)) or 'none but loopback'}"
        )
        raise RendezvousError(
            FailureKind.NO_INTERFACE, text, wanted=list(self.interfaces), usable=names
        )

    def _listen(self) -> None:
        task = self.task
        first: list[str] = [LOOPBACK]
        more: list[str] = []
        if not task.one_host:
            names = [task.host, task.first_host or task.host]
            others = [host for host in task.hosts if host != task.host][-1:]
            first, more = network.listening(self.addresses, names, others, self.interfaces)
        self.listening, self.later_listening = connections.listen(first), connections.bind(more)
        connections.publish(self.run_dir, self.job, self.listening + self.later_listening)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def places(self) -> list[tuple[str, int]]:
        """Return the addresses and ports of the hub that are known by now."""
        return connections.published(self.run_dir, self.job, self.own)

    def deliver(self, sender: int | None, value: bytes) -> None:
        """Receive what a rank tells rank 0, or, without a sender, rank 0's verdict."""
        self.mail.append((sender, value))
        if len(self.mail) == 1:  # else the reader knows already
            self.wake()

    def nobody(self, places: Sequence[tuple[str, int]]) -> Problem:
        """Return why there is no hub `seconds` after Horovod has asked for it at these places."""
        where = f" on {self.task.first_host}" if self.task.first_host else ""
        tried = ", ".join(dict.fromkeys(address for address, _ in places))
        text = (
            f"rank 0{where} did not answer within {self.seconds:.0f} s: it has not "
            f"started, or no way leads there (tried: {tried or 'no address is known'})"
        )
        fields = {**NOBODY_ABSENT, "unreached": [[0, self.task.first_host]]}
        return Problem(FailureKind.NOT_MET, text, fields)

    def gloo(self, hub: Connection) -> dict[str, str]:
        """Return Gloo's interface and address; empty where other hosts' connections must tell.

        A connection from another host has proven that its interface leads to rank 0. One within
        rank 0's own host proves nothing: its ranks take the interface that the other hosts reach.
        """
        on_own_host = hub.peer in self.own
        name = "" if on_own_host else network.with_address(self.addresses, hub.own_address)
        if self.interfaces:
            name = network.chosen(self.addresses, self.interfaces, name)
        return {"interface": name, "address": network.first_address(self.addresses, name)}
