"""Rank 0's side: it calls the roll, lets the ranks go together, and passes their addresses on.

Each rank keeps one connection here and sends a handful of frames, whatever the number of ranks.
What must grow with its square is only what Gloo itself publishes: an address for each pair.
Everything runs in one thread; only rank 0 imports this, and with it asyncio.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ... import failure_kinds as kinds
from ...addresses import LOOPBACK
from ..problem import Problem
from . import listeners, protocol
from .membership import Member, Roll
from .protocol import Frame, Opening, WireError
from .values import Exchange

WIDEN_SECONDS = 3.0
WARN_SECONDS = 20.0
TICK_SECONDS = 0.5
STRANGER_SECONDS = 5.0  # to prove oneself
STRANGERS = 256  # unproven connections at a time, beside the ranks; the oldest gives way


@dataclass(frozen=True)
class Terms:
    """Where the hub listens, and how long the ranks wait for each other.

    `more` are addresses to add when not all ranks have come; `own` all of this host's, on which
    `master_port` is free for what the trainer starts. With `one_host` all ranks are here.
    """

    listening: Sequence[socket.socket]
    more: Sequence[str]
    own: Collection[str]
    seconds: float
    master_port: int = 0
    one_host: bool = True


class Connection:
    """One connection: a stranger's until it has proven itself and said HELLO, then a rank's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.unsent = bytearray()
        self.rank: int | None = None

    def send(self, frame: Frame) -> None:
        """Send a frame soon: frames to one connection go out together."""
        if not self.unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self.unsent += frame.pack()

    def _flush(self) -> None:
        if not self.writer.is_closing():
            self.writer.write(bytes(self.unsent))
        self.unsent.clear()

    async def proven(self, opening: Opening) -> bool:
        """Exchange the proofs; False for somebody who does not know the secret."""
        answer = opening.answer(await self.reader.readexactly(protocol.OPENING))
        if answer is None:
            return False
        self.writer.write(answer)
        return opening.complete(await self.reader.readexactly(protocol.PROOF))

    async def receive(self) -> Frame:
        """Wait for the next frame. Raises WireError, and EOFError or OSError at the end."""
        head = await self.reader.readexactly(protocol.HEAD.size)
        return protocol.unpack(head, await self.reader.readexactly(protocol.length_after(head)))


class Hub:
    """Listens until all ranks are in, then serves those only. `say` prints a line."""

    def __init__(
        self, terms: Terms, secret: bytes, job: str, roll: Roll, say: Callable[[str], None]
    ) -> None:
        self.terms, self.secret, self.job, self.roll, self.say = terms, secret, job, roll, say
        self.exchange = Exchange(lambda rank, frame: self.connections[rank].send(frame))
        self.servers: list[asyncio.AbstractServer] = []
        self.strangers: list[Connection] = []
        self.connections: dict[int, Connection] = {}
        self.asking: list[Connection] = []  # where rank 0 is
        self.told = 0  # of them
        self.all_told = threading.Event()
        self.problem: Problem | None = None
        self.began = self.warned = time.monotonic()
        self.waiting_since: float | None = None
        self.received = 0  # frames

    def start(self) -> None:
        """Serve in a daemon thread until this process ends."""
        threading.Thread(target=lambda: asyncio.run(self._serve()), name="hub", daemon=True).start()

    async def _serve(self) -> None:
        await self._open(self.terms.listening)
        self.watching = asyncio.create_task(self._watch())
        await asyncio.Event().wait()

    async def _open(self, listening: Sequence[socket.socket]) -> None:
        for sock in listening:
            server = await asyncio.start_server(self._admit, sock=sock, backlog=listeners.BACKLOG)
            self.servers.append(server)

    def _shut(self) -> None:
        """Listen no longer, and send strangers away."""
        for server in self.servers:
            server.close()
        self.servers = []
        for connection in self.strangers:
            connection.writer.transport.abort()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        self.strangers.append(connection)
        if len(self.strangers) > STRANGERS + self.roll.size:
            self.strangers.pop(0).writer.transport.abort()
        try:
            opening = Opening(self.secret, self.job)
            proven = await asyncio.wait_for(connection.proven(opening), STRANGER_SECONDS)
            while proven:
                self._heard(connection, await connection.receive())
        except (OSError, EOFError, asyncio.TimeoutError, WireError, UnicodeDecodeError):
            pass  # a stranger, or a rank that has ended
        finally:
            self._no_stranger(connection)
            writer.close()
        if connection.rank is not None:
            self.exchange.forget(connection.rank)
            self.roll.members[connection.rank].ended = True
            self._check()

    def _no_stranger(self, connection: Connection) -> None:
        if connection in self.strangers:
            self.strangers.remove(connection)

    def _heard(self, connection: Connection, frame: Frame) -> None:
        self.received += 1
        if frame.kind == protocol.HELLO:
            self._hello(connection, json.loads(frame.value))
        elif connection.rank is None:
            return  # it was refused
        elif frame.kind == protocol.WHERE:
            self.asking.append(connection)
            self._tell_place()
        elif frame.kind == protocol.MEET:
            self._meet(self.roll.members[connection.rank], frame.value.decode())
        elif frame.kind == protocol.PUT:
            self.exchange.put(connection.rank, frame)
        elif frame.kind == protocol.DONE:
            self.exchange.done(connection.rank, frame.scope)

    def _hello(self, connection: Connection, who: dict[str, Any]) -> None:
        self._no_stranger(connection)
        rank, size, host = who["rank"], who["size"], who["host"]
        before = self.roll.members.get(rank)
        if size != self.roll.size:
            text = f"rank {rank}@{host} counts {size} ranks, rank 0 {self.roll.size}"
            self._fail(Problem(kinds.RENDEZVOUS, text), connection)
        elif before is not None:
            text = f"there are two ranks {rank}: on {before.host} and on {host}"
            self._fail(Problem(kinds.RENDEZVOUS, text), connection)
        else:
            connection.rank = rank
            self.connections[rank] = connection
            self.roll.members[rank] = Member(host, who["local_rank"])
            self._tell_place()
        if self.roll.started:
            self._shut()

    def _meet(self, member: Member, address: str) -> None:
        member.waits, member.address = True, address
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
            if self.watching.done():
                self.watching = asyncio.create_task(self._watch())
        self._check()

    def _check(self) -> None:
        """Let the ranks that wait go when all are there, or none when one can never come."""
        if self.waiting_since is None:
            return
        if self.problem:
            self._fail(self.problem)
        elif ended := self.roll.missing("ended"):
            fields = {**self.roll.absent(), "late": [], "silent": []}
            self._fail(Problem(kinds.NOT_MET, ended, fields))
        elif self.roll.complete and (families := self.roll.families()):
            self._fail(Problem(kinds.RENDEZVOUS, families))
        elif self.roll.complete:
            self._go()

    def _go(self) -> None:
        reached = self._reached()
        for rank, place in self.roll.places().items():
            value = json.dumps({"place": place, "reached": reached}).encode()
            self.connections[rank].send(Frame(protocol.GO, value=value))
        self._dismiss()

    def _tell_place(self) -> None:
        """Tell who asked by which address rank 0 is reached.

        Those of this host have to wait until somebody comes from another, and shows the way.
        """
        reached = self._reached()
        known = self.terms.one_host or reached != LOOPBACK
        waiting = [
            connection for connection in self.asking if not (known or self._used_by(connection))
        ]
        for connection in self.asking:
            if connection not in waiting:
                address = self._used_by(connection) or reached
                value = json.dumps({"address": address, "port": self.terms.master_port}).encode()
                connection.send(Frame(protocol.MASTER, value=value))
                self.told += 1
        self.asking = waiting
        if self.told >= self.roll.size:  # after what is to be sent now
            asyncio.get_running_loop().call_soon(self.all_told.set)

    def _used_by(self, connection: Connection) -> str:
        """Return this host's address that a rank of another host uses; empty for one of this."""
        # None for a connection that has just ended
        peer, own = (connection.writer.get_extra_info(name) for name in ("peername", "sockname"))
        return str(own[0]) if peer and peer[0] not in self.terms.own else ""

    def _reached(self) -> str:
        """Return this host's address that ranks of other hosts use, loopback if there are none."""
        used = Counter(filter(None, map(self._used_by, self.connections.values())))
        return used.most_common(1)[0][0] if used else LOOPBACK

    def _fail(self, problem: Problem, *connections: Connection) -> None:
        """Tell all ranks that wait, and those who will."""
        if problem != self.problem:
            self.say(f"runner: the ranks did not meet: {problem.text}")
        self.problem = problem
        value = json.dumps(problem.as_json()).encode()
        waiting = [self.connections[rank] for rank, one in self.roll.members.items() if one.waits]
        for connection in (*waiting, *connections):
            connection.send(Frame(protocol.PROBLEM, value=value))
        self._dismiss()

    def _dismiss(self) -> None:
        self.waiting_since = None
        self.roll.dismiss()

    async def _watch(self) -> None:
        """Listen on more addresses, lose patience, or name the missing, as long as a rank waits."""
        more = [] if self.roll.started else self.terms.more
        while self.servers or self.waiting_since is not None:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            if self.servers and more and now - self.began > WIDEN_SECONDS:
                port = self.terms.listening[0].getsockname()[1]
                await self._open(listeners.add(more, port))
                more = []
                if self.roll.started:  # since just now
                    self._shut()
            self._tick(now)

    def _tick(self, now: float) -> None:
        waits = self.waiting_since is not None
        if self.waiting_since is not None and now - self.waiting_since > self.terms.seconds:
            text = self.roll.missing("silent", "late", "ended")
            text = f"after {self.terms.seconds:.0f} s {text}"
            self._fail(Problem(kinds.NOT_MET, text, self.roll.absent()))
        elif now - self.warned > max(WARN_SECONDS, self.warned - self.began):
            self.warned = now
            late = self.roll.missing(*(("silent", "late", "ended") if waits else ("silent",)))
            if late:
                self.say(f"runner: waiting for {now - self.began:.0f} s: {late}")
