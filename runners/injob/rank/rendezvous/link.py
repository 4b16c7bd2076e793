"""A rank's way to rank 0's hub: every address at once, and the first that proves to be it."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterator, Sequence

from .protocol import HEAD, OPENING, Frame, Opening, length_after, unpack

CONNECT_SECONDS = 2.0  # an interface that leads nowhere never answers
TALK_SECONDS = 5.0


class Link:
    """A connection to the hub, proven once `open` has returned True."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def open(self, opening: Opening) -> bool:
        """Exchange the proofs; False when the other side is somebody else, or does not want us."""
        self.sock.settimeout(TALK_SECONDS)
        try:
            self.sock.sendall(opening.hello())
            last = opening.last(self._read(OPENING))
            if last is None:
                return False
            self.sock.sendall(last)
        except OSError:
            return False  # not the hub, or not up: the caller tries on until its deadline
        self.sock.settimeout(None)
        return True

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises OSError when the hub is gone."""
        self.sock.sendall(frame.pack())

    def receive(self) -> Frame:
        """Wait for the next frame. Raises OSError when the hub is gone."""
        head = self._read(HEAD.size)
        return unpack(head, self._read(length_after(head)))

    def _read(self, length: int) -> bytes:
        """Read so many bytes, and none beyond, so that `select` knows whether there are more."""
        data = b""
        while len(data) < length:
            chunk = self.sock.recv(length - len(data))
            if not chunk:
                raise ConnectionResetError(errno.ECONNRESET, "connection closed")
            data += chunk
        return data


def connect(places: Sequence[tuple[str, int]], secret: bytes, job: str) -> Link | None:
    """Return a link to the first place that proves to be this job's hub, None when none does."""
    for sock in _connected(places):
        link = Link(sock)
        if link.open(Opening(secret, job)):
            return link
        sock.close()
    return None


def _connected(places: Sequence[tuple[str, int]]) -> Iterator[socket.socket]:
    """Connect to all places at once; give out sockets as they are decided, close the rest.

    One to which no way leads is given out too, and fails at its first use.
    """
    pending = set()
    for place in places:
        sock = socket.socket(socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
        sock.setblocking(False)
        sock.connect_ex(place)
        pending.add(sock)
    deadline = time.monotonic() + CONNECT_SECONDS
    try:
        while pending and (left := deadline - time.monotonic()) > 0:
            for sock in select.select([], pending, [], left)[1]:
                pending.remove(sock)
                yield sock
    finally:
        for sock in pending:
            sock.close()
