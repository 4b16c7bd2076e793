"""The hub's connections: who may come in, and the bytes in and out. One thread, no waiting."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable
from typing import Protocol

from . import protocol
from .protocol import Frame, Opening, WireError

STRANGER_SECONDS = 5.0  # to prove oneself
STRANGERS = 256  # unproven connections at a time; the oldest gives way
CHUNK = 1 << 18


class Guest:
    """One connection: a stranger until it has proven that it knows the secret, then a rank."""

    def __init__(self, sock: socket.socket, opening: Opening) -> None:
        self.sock, self.opening = sock, opening
        self.since = time.monotonic()
        self.received, self.unsent = bytearray(), bytearray()
        self.wants = protocol.OPENING  # bytes of the next proof; 0 when proven
        self.rank: int | None = None
        self.closed = False

    def take(self, count: int) -> bytes:
        """Take bytes off the front of what came."""
        data = bytes(self.received[:count])
        del self.received[:count]
        return data


class Host(Protocol):
    """Who talks with the guests."""

    def heard(self, guest: Guest, frame: Frame) -> None:
        """A guest said something."""

    def gone(self, guest: Guest) -> None:
        """A guest's connection has ended."""

    def tick(self, now: float) -> None:
        """Something happened, or `patience` seconds have passed."""

    def patience(self) -> float | None:
        """How long nothing may happen before the next tick; None for ever."""


class Lobby:
    """Listens on sockets, tells strangers from ranks, and carries frames to and from a Host."""

    def __init__(self, doors: Iterable[socket.socket], secret: bytes, job: str) -> None:
        self.secret, self.job = secret, job
        self.selector = selectors.DefaultSelector()
        self.doors: list[socket.socket] = []
        self.strangers: set[Guest] = set()
        self.unflushed: set[Guest] = set()
        self.open(doors)

    def open(self, doors: Iterable[socket.socket]) -> None:
        """Listen on these sockets too."""
        for door in doors:
            self.selector.register(door, selectors.EVENT_READ)
            self.doors.append(door)

    def shut(self) -> None:
        """Listen no longer, and send strangers away."""
        for door in self.doors:
            self.selector.unregister(door)
            door.close()
        self.doors = []
        for guest in list(self.strangers):
            self._drop(guest)

    def run(self, host: Host) -> None:
        """Serve for ever."""
        while True:
            for key, events in self.selector.select(host.patience()):
                if isinstance(key.data, Guest):
                    self._attend(key.data, events, host)
                elif isinstance(key.fileobj, socket.socket):
                    self._admit(key.fileobj)
            now = time.monotonic()
            for guest in [one for one in self.strangers if now - one.since > STRANGER_SECONDS]:
                self._drop(guest)
            host.tick(now)
            for guest in list(self.unflushed):
                self._flush(guest, host)

    def send(self, guest: Guest, frame: Frame) -> None:
        """Send a frame soon: frames to one guest go out together."""
        if not guest.closed:
            guest.unsent += frame.pack()
            self.unflushed.add(guest)

    def _admit(self, door: socket.socket) -> None:
        try:
            sock, _ = door.accept()
        except OSError:
            return  # it went away before its turn, or its door was shut in this round
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.strangers) >= STRANGERS:
            self._drop(min(self.strangers, key=lambda one: one.since))
        guest = Guest(sock, Opening(self.secret, self.job))
        self.strangers.add(guest)
        self.selector.register(sock, selectors.EVENT_READ, guest)

    def _attend(self, guest: Guest, events: int, host: Host) -> None:
        """Read what a guest sent; its next frames wait until there is room for more."""
        if guest.closed:
            return
        if events & selectors.EVENT_WRITE:
            self.unflushed.add(guest)
        if events & selectors.EVENT_READ and not (self._read(guest) and self._listen(guest, host)):
            self._end(guest, host)

    def _read(self, guest: Guest) -> bool:
        """Whether there is more to come."""
        try:
            chunk = guest.sock.recv(CHUNK)
        except OSError:
            return False
        guest.received += chunk
        return bool(chunk)

    def _listen(self, guest: Guest, host: Host) -> bool:
        """Act on what came; False for somebody who does not know the secret."""
        while guest.wants and len(guest.received) >= guest.wants:
            if not self._proof(guest, guest.take(guest.wants)):
                return False
        if guest.wants:
            return True
        try:
            frames = protocol.unpack(guest.received)
        except (WireError, UnicodeDecodeError):
            return False
        for frame in frames:
            host.heard(guest, frame)
        return True

    def _proof(self, guest: Guest, words: bytes) -> bool:
        if guest.wants == protocol.OPENING:
            answer = guest.opening.answer(words)
            guest.unsent += answer or b""
            self.unflushed.add(guest)
            guest.wants = protocol.PROOF
            return answer is not None
        guest.wants = 0
        self.strangers.discard(guest)
        return guest.opening.complete(words)

    def _flush(self, guest: Guest, host: Host) -> None:
        """Send what the socket takes now."""
        self.unflushed.discard(guest)
        if guest.closed:
            return
        try:
            while guest.unsent:
                del guest.unsent[: guest.sock.send(guest.unsent)]
        except BlockingIOError:
            self.selector.modify(guest.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, guest)
        except OSError:
            self._end(guest, host)
        else:
            self.selector.modify(guest.sock, selectors.EVENT_READ, guest)

    def _end(self, guest: Guest, host: Host) -> None:
        self._drop(guest)
        host.gone(guest)

    def _drop(self, guest: Guest) -> None:
        self.strangers.discard(guest)
        guest.closed = True
        self.selector.unregister(guest.sock)
        guest.sock.close()
