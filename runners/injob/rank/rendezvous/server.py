"""Rank 0's side: it calls the roll, lets the ranks go together, and passes their addresses on.

Each rank keeps one connection here and sends a handful of frames, whatever the number of ranks.
What must grow with its square is only what Gloo itself publishes: an address for each pair.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ... import failure_kinds as kinds
from ..problem import Problem
from . import listeners, protocol
from .connections import Guest, Lobby
from .exchange import Exchange
from .membership import Member, Roll
from .protocol import Frame

WIDEN_SECONDS = 3.0
WARN_SECONDS = 20.0
TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Terms:
    """Where the hub listens, and how long the ranks wait for each other.

    `more` are addresses to add when not all ranks have come; `own` all of this host's.
    """

    listening: Sequence[socket.socket]
    more: Sequence[str]
    own: Collection[str]
    seconds: float


class Hub:
    """Listens until all ranks are in, then serves those only. `say` prints a line."""

    def __init__(
        self, terms: Terms, secret: bytes, job: str, roll: Roll, say: Callable[[str], None]
    ) -> None:
        self.terms, self.roll, self.say = terms, roll, say
        self.lobby = Lobby(terms.listening, secret, job)
        self.exchange = Exchange(self.lobby.send)
        self.more = list(terms.more)
        self.guests: dict[int, Guest] = {}
        self.problem: Problem | None = None
        self.began = self.warned = time.monotonic()
        self.waiting_since: float | None = None
        self.received: Counter[bytes] = Counter()  # frames by kind

    def start(self) -> None:
        """Serve in a daemon thread until this process ends."""
        threading.Thread(target=self.lobby.run, args=(self,), name="hub", daemon=True).start()

    def patience(self) -> float | None:
        """Return how long to sleep: for ever when only a rank can have something to say."""
        waits = self.waiting_since is not None
        return TICK_SECONDS if waits or self.lobby.doors or self.lobby.strangers else None

    def heard(self, guest: Guest, frame: Frame) -> None:
        """Act on what a rank says."""
        self.received[frame.kind] += 1
        if frame.kind == protocol.HELLO:
            self._hello(guest, json.loads(frame.value))
        elif frame.kind == protocol.MEET and guest.rank is not None:
            self._meet(self.roll.members[guest.rank], json.loads(frame.value))
        elif frame.kind == protocol.PUT:
            self.exchange.put(guest, frame)
        elif frame.kind == protocol.DONE:
            self.exchange.done(guest, frame.scope)

    def _hello(self, guest: Guest, who: dict[str, Any]) -> None:
        rank, size, host = who["rank"], who["size"], who["host"]
        before = self.roll.members.get(rank)
        if size != self.roll.size:
            text = f"rank {rank}@{host} counts {size} ranks, rank 0 {self.roll.size}"
            self._fail(Problem(kinds.RENDEZVOUS, text), guest)
        elif before is not None:
            text = f"there are two ranks {rank}: on {before.host} and on {host}"
            self._fail(Problem(kinds.RENDEZVOUS, text), guest)
        else:
            guest.rank = rank
            self.guests[rank] = guest
            self.roll.members[rank] = Member(host, who["local_rank"])
        if self.roll.started:
            self.lobby.shut()
            self.more = []

    def _meet(self, member: Member, gloo: dict[str, str]) -> None:
        member.waits = True
        member.interface, member.address = gloo["interface"], gloo["address"]
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        self._check()

    def gone(self, guest: Guest) -> None:
        """Note that a rank has ended."""
        self.exchange.forget(guest)
        if guest.rank is not None:
            self.roll.members[guest.rank].ended = True
            self._check()

    def _check(self) -> None:
        """Let the ranks that wait go when all are there, or none when one can never come."""
        if self.waiting_since is None:
            return
        problem = self.problem
        if not problem and (ended := self.roll.ended()):
            problem = Problem(
                kinds.NOT_MET, ended, {**self.roll.absent(), "late": [], "silent": []}
            )
        if self.roll.complete and not problem and (families := self.roll.families()):
            problem = Problem(kinds.RENDEZVOUS, families)
        if problem:
            self._fail(problem)
        elif self.roll.complete:
            self._go()

    def _go(self) -> None:
        self.waiting_since = None
        reached = self._reached()
        for rank, place in self.roll.places().items():
            value = json.dumps({"place": place, "reached": reached}).encode()
            self.lobby.send(self.guests[rank], Frame(protocol.GO, value=value))
        self.roll.dismiss()

    def _reached(self) -> str:
        """Return this host's address that ranks of other hosts use, loopback if there are none."""
        used: Counter[str] = Counter()
        for guest in self.guests.values():
            if guest.sock.getpeername()[0] not in self.terms.own:
                used[guest.sock.getsockname()[0]] += 1
        return used.most_common(1)[0][0] if used else "127.0.0.1"

    def _fail(self, problem: Problem, *guests: Guest) -> None:
        """Tell all ranks that wait, and those who will."""
        if problem != self.problem:
            self.say(f"runner: the ranks did not meet: {problem.text}")
        self.problem, self.waiting_since = problem, None
        value = json.dumps(problem.as_json()).encode()
        waiting = [self.guests[rank] for rank, one in self.roll.members.items() if one.waits]
        for guest in (*waiting, *guests):
            self.lobby.send(guest, Frame(protocol.PROBLEM, value=value))
        self.roll.dismiss()

    def tick(self, now: float) -> None:
        """Open more doors, lose patience, or say whom everybody waits for."""
        if self.more and now - self.began > WIDEN_SECONDS:
            port = self.lobby.doors[0].getsockname()[1]
            self.lobby.open(listeners.add(self.more, port))
            self.more = []
        waits = self.waiting_since is not None
        if self.waiting_since is not None and now - self.waiting_since > self.terms.seconds:
            text = f"after {self.terms.seconds:.0f} s {self.roll.missing()}"
            self._fail(Problem(kinds.NOT_MET, text, self.roll.absent()))
        elif now - self.warned > max(WARN_SECONDS, self.warned - self.began):
            self.warned = now
            late = self.roll.missing() if waits else self.roll.silent()
            if late:
                self.say(f"runner: waiting for {now - self.began:.0f} s: {late}")
