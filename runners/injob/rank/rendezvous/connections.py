"""Serves the connections of a hub or a proxy in one thread, with a selector.

Each connection has a conversation of its own and waits for no other. Connections that have not
proven themselves are limited in time and number. asyncio is not used: its import was a tenth of the
shim's time with two ranks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Callable, Generator, Union  # noqa: UP035  (Python 3.8)

from ....contract import interfaces
from ... import records

NAME = "rendezvous.json"
BACKLOG = 1024
STRANGER_SECONDS = 5.0  # for the proof, and the rank's number
STRANGERS = 256  # at a time, beside the ranks; the oldest gives way
CHUNK = 1 << 18  # bytes
LONGEST_LINES = 1 << 14  # bytes before an expected delimiter
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
# A conversation yields how many bytes it wants next, or the bytes with which they end, and is sent
# them; it returns when it is over.
Talk = Generator[Union[int, bytes], bytes, None]


class WireError(Exception):
    """The other side does not speak this language."""


def bind(hosts: Iterable[str]) -> list[socket.socket]:
    """Bind a random port on each of these addresses that is available now. Raises OSError.

    SO_REUSEADDR is not set: no other process can bind the port, although none listens yet.
    """
    socks = []
    for address in hosts:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            sock.bind((address, 0))
            socks.append(sock)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRNOTAVAIL:  # an address of IPv6 may still be tentative
                raise
    return socks


def listen(hosts: Iterable[str]) -> list[socket.socket]:
    """Listen on a random port of each of these addresses. Raises OSError."""
    socks = bind(hosts)
    for sock in socks:
        sock.listen(BACKLOG)
    return socks


def publish(run_dir: str, job: str, socks: Sequence[socket.socket]) -> None:
    """Write where the hub is, for the user's eyes only."""
    places = [list(sock.getsockname()[:2]) for sock in socks]
    record = {"job": job, "network": interfaces.network(), "places": places}
    records.write_json(os.path.join(run_dir, NAME), record, 0o600)


def published(run_dir: str, job: str, own_addresses: Collection[str] = ()) -> list[tuple[str, int]]:
    """Return addresses and ports that this job's rank 0 has published; none if it has not yet.

    Where rank 0 is on another host, `own_addresses` are left out: each host may have the same one,
    for a bridge or a management card. A stranger could listen there, and relay to the hub from
    rank 0's host, where he has the same address too.

    The file is created if it is missing. An NFS client remembers a missing file for up to a minute
    (acdirmax), but asks the server again before it creates one, and for one that it knows.
    """
    descriptor = os.open(os.path.join(run_dir, NAME), os.O_RDONLY | os.O_CREAT, 0o600)
    record = {}
    with os.fdopen(descriptor, encoding="utf-8") as file, contextlib.suppress(ValueError):
        record = json.load(file)  # empty before rank 0 has written it
    if record.get("job") != job:  # of an earlier attempt with the same folder
        return []
    avoided = () if record["network"] == interfaces.network() else own_addresses
    return [(address, port) for address, port in record["places"] if address not in avoided]


class Connection:
    """One connection: `own_address` is this host's address that `peer`, an address too, uses."""

    def __init__(self, sock: socket.socket, peer: tuple[Any, ...]) -> None:
        self.sock = sock
        self.peer, self.own_address = str(peer[0]), str(sock.getsockname()[0])
        self.began = time.monotonic()
        self.rank: int | None = None
        self.unread, self.unsent = bytearray(), bytearray()
        self.leaving = False  # once all is sent

    def begin(self, talk: Talk) -> None:
        self.talk, self.wanted = talk, next(talk)

    @property
    def closed(self) -> bool:
        return self.sock.fileno() < 0

    def hear(self, data: bytes) -> None:
        """Send the conversation what it waits for. Raises StopIteration where it is over."""
        self.unread += data
        while len(self.unread) >= (length := self._length()):
            piece = bytes(self.unread[:length])
            del self.unread[:length]
            self.wanted = self.talk.send(piece)

    def _length(self) -> int:
        """Return how many bytes are wanted: while their end is missing, one more than there are."""
        if isinstance(self.wanted, int):
            return self.wanted
        end = self.unread.find(self.wanted)
        if end < 0 and len(self.unread) > LONGEST_LINES:
            raise WireError("no end")
        return end + len(self.wanted) if end >= 0 else len(self.unread) + 1


class Connections:
    """The connections of ranks and strangers; `talk` begins a conversation, `ended` gets its end.

    At most `ranks` + STRANGERS may be strangers at a time.
    """

    def __init__(
        self,
        ranks: int,
        talk: Callable[[Connection], Talk],
        ended: Callable[[Connection], None],
    ) -> None:
        self.most, self.talk, self.ended = ranks + STRANGERS, talk, ended
        self.selector = selectors.DefaultSelector()
        self.listening: list[socket.socket] = []
        self.strangers: list[Connection] = []
        self.sending: set[Connection] = set()

    def listen(self, socks: Sequence[socket.socket]) -> None:
        """Listen on these sockets too, which are bound."""
        for sock in socks:
            sock.listen(BACKLOG)
            sock.setblocking(False)
            self.selector.register(sock, READ)
            self.listening.append(sock)

    def shut(self) -> None:
        """Stop listening, and close the strangers' connections."""
        for sock in self.listening:
            self.selector.unregister(sock)
            sock.close()
        self.listening = []
        for connection in [*self.strangers]:
            self.end(connection)

    def know(self, connection: Connection) -> None:
        """Remove a connection from the strangers."""
        if connection in self.strangers:
            self.strangers.remove(connection)

    def expire(self, now: float) -> None:
        """Close the connections of strangers that have taken too long."""
        for connection in [*self.strangers]:
            if now - connection.began > STRANGER_SECONDS:
                self.end(connection)

    def connect(self, place: tuple[str, int], talk: Callable[[Connection], Talk]) -> Connection:
        """Begin to connect; without a route the connection will end."""
        sock = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
        sock.setblocking(False)
        sock.connect_ex(place)
        return self._add(sock, place, talk)

    def send(self, connection: Connection, data: bytes, last: bool = False) -> None:
        """Queue data: one write sends all for a connection. It is closed after the `last`."""
        if not connection.closed:
            connection.unsent += data
            connection.leaving = last
            self.sending.add(connection)

    def turn(self, seconds: float | None) -> None:
        """Wait at most `seconds` for events, and handle all of them."""
        self._flush()
        for key, events in self.selector.select(seconds):
            if isinstance(key.data, Connection):
                if events & READ:
                    self._read(key.data)
                if events & WRITE:
                    self.sending.add(key.data)
            elif isinstance(key.fileobj, socket.socket):
                self._accept(key.fileobj)
        self._flush()

    def _flush(self) -> None:
        while self.sending:
            self._write(self.sending.pop())

    def end(self, connection: Connection) -> None:
        """Close a connection, and call `ended`."""
        self.know(connection)
        if not connection.closed:
            self.selector.unregister(connection.sock)
            connection.sock.close()
            self.ended(connection)

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, peer = listening.accept()
        except OSError:  # it has gone again; or no descriptor is left, and it is asked again
            time.sleep(0.01)
            return
        sock.setblocking(False)
        self.strangers.append(self._add(sock, peer, self.talk))
        if len(self.strangers) > self.most:
            self.end(self.strangers[0])

    def _add(
        self, sock: socket.socket, peer: tuple[Any, ...], talk: Callable[[Connection], Talk]
    ) -> Connection:
        connection = Connection(sock, peer)
        self.selector.register(sock, READ, connection)
        connection.begin(talk(connection))
        return connection

    def _read(self, connection: Connection) -> None:
        if connection.closed:  # since a moment ago
            return
        try:
            data = connection.sock.recv(CHUNK)
            if data:
                connection.hear(data)
        except BlockingIOError:
            return
        except (OSError, StopIteration, WireError, ValueError):
            data = b""
        except Exception as error:  # of what a rank should not say: all the others wait for us
            print(f"runner: {connection.peer} at the rendezvous: {error!r}", flush=True)
            data = b""
        if not data:  # a rank that has ended, or a stranger
            self.end(connection)

    def _write(self, connection: Connection) -> None:
        if connection.closed:
            return
        try:
            del connection.unsent[: connection.sock.send(connection.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.end(connection)
            return
        if connection.leaving and not connection.unsent:
            self.end(connection)
            return
        events = READ | WRITE if connection.unsent else READ
        self.selector.modify(connection.sock, events, connection)
