"""Rank 0's hub knows which ranks are there, releases them together, and stores their values.

Each rank keeps one connection here and sends a handful of requests, whatever the number of ranks.
What must grow with its square is only what Gloo itself publishes: an address for each pair.
Everything runs in one thread.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

from ....contract.failure_kinds import FailureKind
from ....contract.interfaces import LOOPBACK
from ...problems import Problem
from .. import network
from . import protocol
from .connections import Connection, Connections, Talk
from .endpoint import Endpoint
from .hub_state import Answer, KeyValueStore, Member, RankTable
from .protocol import Frame, Opening

WIDEN_SECONDS = 3.0
WARN_SECONDS = 20.0
TICK_SECONDS = 0.5


class Hub:
    """Listens until all ranks are in, then serves those only; `endpoint` is rank 0's."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.table = RankTable(endpoint.task.size, endpoint.task.hosts)
        self.store = KeyValueStore()
        self.connections = Connections(self.table.size, self._talk, self._ended)
        self.later_listening = endpoint.later_listening
        self.ranks: dict[int, Connection] = {}
        self.place_requests: list[Connection] = []  # ranks that asked where rank 0 is
        self.places_sent = 0
        self.all_places_sent = threading.Event()
        self.problem: Problem | None = None
        self.began = self.warned = time.monotonic()
        self.waiting_since: float | None = None
        self.received = 0  # frames

    def start(self) -> None:
        """Serve in a daemon thread until this process ends."""
        threading.Thread(target=self._serve, name="hub", daemon=True).start()

    def _serve(self) -> None:
        self.connections.listen(self.endpoint.listening)
        due = 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                self._tick(now)
                due = now + TICK_SECONDS
            self.connections.turn(due - now if self._watching else None)
            if self.places_sent >= self.table.size:
                self.all_places_sent.set()

    @property
    def _watching(self) -> bool:
        """Whether something may become due without an event."""
        strange = bool(self.connections.listening or self.connections.strangers)
        return strange or self.waiting_since is not None

    def _talk(self, connection: Connection) -> Talk:
        """Exchange the proofs, in which strangers fail, then handle frame after frame."""
        place = connection.sock.getsockname()[:2]
        opening = Opening(self.endpoint.secret, self.endpoint.job, place)
        answer = opening.answer((yield protocol.OPENING))
        if answer is None:
            return
        self.connections.send(connection, answer)
        if not opening.complete((yield protocol.PROOF)):
            return
        yield from protocol.frames(partial(self._heard, connection))

    def _send(self, connection: Connection, name: str, value: bytes) -> None:
        self.connections.send(connection, Frame(name, value).pack())

    def _send_json(self, connection: Connection, name: str, value: Any) -> None:
        self._send(connection, name, json.dumps(value).encode())

    def _ended(self, connection: Connection) -> None:
        if connection.rank is not None:
            self.table.members[connection.rank].ended = True
            self._check()
            self._check_lists()

    def _heard(self, connection: Connection, frame: Frame) -> None:
        self.received += 1
        method, _, name = frame.name.partition(" ")
        if frame.name == protocol.HELLO:
            self._hello(connection, json.loads(frame.value))
        elif connection.rank is None:
            return  # it was refused
        elif name == protocol.PLACE:
            self.place_requests.append(connection)
            self._tell_place()
        elif name == protocol.MEET:
            self._meet(self.table.members[connection.rank], frame.value.decode())
        elif name == protocol.VERDICT:
            for rank, receiver in self.ranks.items():
                if rank and not connection.rank:
                    self._send(receiver, name, frame.value)
        elif name in (protocol.TELL, protocol.LAST):
            self.endpoint.deliver(connection.rank, frame.value)
            self._send(connection, frame.name, b"")
        else:
            answer = partial(self._send, connection, frame.name)
            self._serve_values(method, name, frame.value, answer)

    def _serve_values(self, method: str, name: str, value: bytes, answer: Answer) -> None:
        if method == protocol.LIST:
            scope, _, slot = name.rpartition("/")
            self.store.put_list(scope, int(slot), value, answer)
            self._check_lists()
        elif method == "PUT":
            self.store.put(name, value)
        elif method == "GET":
            self.store.get(name, answer)
        elif method == "DELETE":
            self.store.drop(name)
            answer(b"")

    def _hello(self, connection: Connection, who: dict[str, Any]) -> None:
        self.connections.know(connection)
        rank, size, host = who["rank"], who["size"], who["host"]
        before = self.table.members.get(rank)
        if size != self.table.size:
            text = f"rank {rank}@{host} counts {size} ranks, rank 0 {self.table.size}"
            self._fail(Problem(FailureKind.RENDEZVOUS, text), connection)
        elif before is not None:
            text = f"there are two ranks {rank}: on {before.host} and on {host}"
            self._fail(Problem(FailureKind.RENDEZVOUS, text), connection)
        else:
            connection.rank = rank
            self.ranks[rank] = connection
            self.table.members[rank] = Member(host, who["local_rank"], who["address"])
            self._tell_place()
        if self.table.started:
            self.connections.shut()

    def _meet(self, member: Member, server: str) -> None:
        member.waits, member.server = True, server
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        self._check()

    def _check(self) -> None:
        """Release the waiting ranks when all are there, or fail them when one can never come."""
        if self.waiting_since is None:
            return
        if self.problem:
            self._fail(self.problem)
        elif problem := self._death():
            self._fail(problem)
        elif self.table.complete and (families := self.table.families()):
            self._fail(Problem(FailureKind.RENDEZVOUS, families))
        elif self.table.complete:
            self._go()

    def _check_lists(self) -> None:
        """Tell the ranks that wait for the list of one that has ended."""
        if problem := self._death():
            ended = [rank for rank, _ in problem.fields["ended"]]
            for rank in self.store.left_waiting(ended, self.table.size):
                self._send_json(self.ranks[rank], protocol.PROBLEM, vars(problem))

    def _death(self) -> Problem | None:
        """Return the problem of the ranks that have ended; None where none has."""
        if not any(member.ended for member in self.table.members.values()):
            return None
        fields = {**self.table.absent(), "late": [], "silent": []}
        return Problem(FailureKind.NOT_MET, self.table.missing("ended"), fields)

    def _go(self) -> None:
        members = self.table.members
        servers = [members[rank].server for rank in range(self.table.size)]
        for rank, place in self.table.places().items():
            value = {"place": place, "servers": servers if any(servers) else []}
            self._send_json(self.ranks[rank], f"GET {protocol.MEET}", value)
        self.store.lists.clear()  # of a process set that was given up
        self._dismiss()

    def _tell_place(self) -> None:
        """Answer the ranks that asked for rank 0's address.

        Ranks of this host wait until a rank of another host connects, and so shows the address.
        """
        requests, self.place_requests = self.place_requests, []
        sock = self.endpoint.trainer_port
        if requests and not self.places_sent and (problem := network.foreign_listener(sock)):
            self._fail(problem, *requests)
            return
        reached = self._reached()
        known = self.endpoint.task.one_host or reached != LOOPBACK
        port = sock.getsockname()[1]
        for connection in requests:
            used = self._used_by(connection)
            if known or used:
                place = {"address": used or reached, "port": port}
                self._send_json(connection, f"GET {protocol.PLACE}", place)
                self.places_sent += 1
            else:
                self.place_requests.append(connection)

    def _used_by(self, connection: Connection) -> str:
        """Return this host's address that a rank of another host uses; empty for a rank here."""
        return "" if connection.peer in self.endpoint.own else connection.own_address

    def _reached(self) -> str:
        """Return this host's address that ranks of other hosts use, loopback if there are none."""
        used = Counter(filter(None, map(self._used_by, self.ranks.values())))
        return used.most_common(1)[0][0] if used else LOOPBACK

    def _fail(self, problem: Problem, *connections: Connection) -> None:
        """Send a problem to all ranks that wait, and to those that will."""
        if problem != self.problem:
            self.endpoint.say(f"runner: the ranks did not meet: {problem.text}")
        self.problem = problem
        waiting = [self.ranks[rank] for rank, member in self.table.members.items() if member.waits]
        for connection in (*waiting, *connections):
            self._send_json(connection, protocol.PROBLEM, vars(problem))
        self._dismiss()

    def _dismiss(self) -> None:
        """Release all ranks: they may meet again after hvd.shutdown()."""
        self.waiting_since = None
        for member in self.table.members.values():
            member.waits = False

    def _tick(self, now: float) -> None:
        """End slow strangers, listen on more addresses, give up, or name the missing ranks."""
        self.connections.expire(now)
        if self.later_listening and self.connections.listening and now - self.began > WIDEN_SECONDS:
            self.connections.listen(self.later_listening)
            self.later_listening = []
        waits = self.waiting_since is not None
        since = self.began if self.waiting_since is None else self.waiting_since
        if self.waiting_since is not None and now - self.waiting_since > self.endpoint.seconds:
            text = self.table.missing("silent", "late", "ended")
            text = f"after {self.endpoint.seconds:.0f} s {text}"
            self._fail(Problem(FailureKind.NOT_MET, text, self.table.absent()))
        elif now - max(self.warned, since) > max(WARN_SECONDS, self.warned - since):
            self.warned = now
            late = self.table.missing(*(("silent", "late", "ended") if waits else ("silent",)))
            if late:
                self.endpoint.say(f"runner: waiting for {now - since:.0f} s: {late}")
