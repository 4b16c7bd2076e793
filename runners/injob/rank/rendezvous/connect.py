"""The way to rank 0's hub: every address at once, and the first that proves to be it."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Iterator, Sequence

from ...addresses import LOOPBACK, resolve
from .listeners import candidate_ports, published
from .protocol import OPENING, Frame, Opening, unpack

CONNECT_SECONDS = 2.0  # an interface that leads nowhere never answers
TALK_SECONDS = 5.0


class Link:
    """A proven connection to the hub."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = bytearray()
        self.own, self.peer = sock.getsockname()[0], sock.getpeername()[0]

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises OSError when the hub is gone."""
        self.sock.settimeout(None)
        self.sock.sendall(frame.pack())

    def greet(self, hello: Frame) -> bool:
        """Send the first frame; False when the hub has gone by now."""
        try:
            self.send(hello)
        except OSError:
            return False
        return True

    def receive(self, seconds: float | None) -> list[Frame]:
        """Return the next frames; none when `seconds` are over, or what came is not a whole one.

        Raises OSError when the hub is gone.
        """
        self.sock.settimeout(seconds)
        try:
            chunk = self.sock.recv(1 << 18)
        except socket.timeout:
            return []
        if not chunk:
            raise ConnectionResetError(errno.ECONNRESET, "connection closed")
        self.data += chunk
        return unpack(self.data)


def endpoints(first_host: str, one_host: bool, job: str, run_dir: str) -> list[tuple[str, int]]:
    """Return where the hub may be: what rank 0 published, and what its node's name leads to."""
    if one_host:
        return [(LOOPBACK, port) for port in candidate_ports(job)]
    known = published(run_dir, job)
    named = resolve(first_host) if first_host else []
    guesses = [(address, port) for address in named for port in candidate_ports(job)]
    return known + [one for one in guesses if one not in known]


def connect(places: Sequence[tuple[str, int]], secret: bytes, job: str) -> Link | None:
    """Return a link to the first place that proves to be this job's hub, None when none does."""
    for sock in _connected(places):
        link = _opened(sock, Opening(secret, job))
        if link is not None:
            return link
        sock.close()
    return None


def _connected(places: Sequence[tuple[str, int]]) -> Iterator[socket.socket]:
    """Connect to all places at once; give out sockets as they succeed, close the rest."""
    with selectors.DefaultSelector() as selector:
        for place in places:
            _start(selector, place)
        deadline = time.monotonic() + CONNECT_SECONDS
        try:
            while selector.get_map() and time.monotonic() < deadline:
                for key, _ in selector.select(deadline - time.monotonic()):
                    sock = key.fileobj
                    assert isinstance(sock, socket.socket)
                    selector.unregister(sock)
                    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        sock.close()
                    else:
                        yield sock
        finally:
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()


def _start(selector: selectors.BaseSelector, place: tuple[str, int]) -> None:
    """Begin to connect; a place that cannot even be tried (no route) is left out."""
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    if sock.connect_ex(place) in (0, errno.EINPROGRESS):
        selector.register(sock, selectors.EVENT_WRITE)
    else:
        sock.close()


def _opened(sock: socket.socket, opening: Opening) -> Link | None:
    """Exchange the proofs; None when the other side is somebody else, or does not want us."""
    sock.settimeout(TALK_SECONDS)
    try:
        sock.sendall(opening.hello())
        last = opening.last(_answer(sock))
        if last is None:
            return None
        sock.sendall(last)
        return Link(sock)
    except OSError:
        return None  # not the hub, or not up: the caller tries on until its deadline


def _answer(sock: socket.socket) -> bytes:
    """Read the hub's answer, or what there is of it."""
    answer = b""
    while len(answer) < OPENING:
        chunk = sock.recv(OPENING - len(answer))
        if not chunk:
            break
        answer += chunk
    return answer
