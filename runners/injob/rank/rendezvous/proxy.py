"""Each rank's proxy on loopback, with which its Horovod talks over HTTP, and its link to the hub.

Horovod's client (0.28.1, http_store.cc) opens a connection for each request, knows only IPv4,
proves nothing, takes 404 as "not yet" and asks again after 10 ms. Its requests go on to the hub and
wait there until they can be answered. Of the 2.5 that Gloo makes for each other rank one for each
context does, which brings this rank's part of all lists; the rest end here. The URL holds a secret
of this process: other users of the host get nothing.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable

from ....contract.failure_kinds import FailureKind
from ....contract.interfaces import LOOPBACK
from ...problems import Problem, problem_of
from . import connections, hub_state, protocol
from .connections import Connection, Connections, Talk
from .endpoint import Endpoint
from .hub_state import NOBODY_ABSENT
from .protocol import Frame, Opening

# How long a request waits for its answer; in between Horovod looks at its own time limit.
HOLD_SECONDS = 5.0
# What is not Horovod's. To show the way to rank 0 another node's rank must have come.
PATIENCE = {protocol.MEET: math.inf, protocol.PLACE: 60.0}
TICK_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two looks for the hub
CONNECT_SECONDS = 2.0  # an interface without a route never answers
LONGEST_BODY = 1 << 26
HEAD_END = b"\r\n\r\n"
OK, NOT_FOUND, FAILED = "200 OK", "404 Not Found", "500 Internal Server Error"


def parse_head(head: bytes) -> tuple[str, str, int] | None:
    """Return method, path and length of the body of a request; None where it is none.

    By hand, because http.server takes 30 ms to import, and as long as a request to read one.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    words, length = first.split(" "), 0
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            text = value.strip()
            length = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    return (words[0], words[1], length) if len(words) == 3 and 0 <= length <= LONGEST_BODY else None


@dataclass(frozen=True)
class PendingRequest:
    """A request for `path` that waits for the hub's answer `name` since the time `began`."""

    connection: Connection
    path: str
    name: str
    began: float


class Proxy:
    """Listens on loopback at once; answers when `start` has found the hub.

    `problem` is why the ranks will not meet. One thread, in which nothing blocks.
    """

    def __init__(self) -> None:
        self.sock = connections.listen([LOOPBACK])[0]
        self.port = int(self.sock.getsockname()[1])
        self.token = os.urandom(16).hex()
        self.pending: list[PendingRequest] = []
        self.asked: float | None = None  # when Horovod first did
        self.problem: Problem | None = None
        self.met = False  # in the last hvd.init()
        self.lists: dict[str, str] = {}  # by scope, the request that left this rank's list
        self.columns: dict[str, bytes] = {}  # the answers to those

    @property
    def prefix(self) -> str:
        """The start of every path, as Horovod makes it of `variables`."""
        return f"/{self.token}:{self.port}/"

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which Horovod gets here: `http://ADDR:PORT/scope/key`."""
        return {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{LOOPBACK}:{self.port}/{self.token}",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.port),
        }

    def start(self, endpoint: Endpoint) -> None:
        """Serve in a daemon thread until this process ends."""
        self.connections = Connections(0, self._talk, self._ended)
        self.link = Link(endpoint, self.connections, self._heard)
        threading.Thread(target=self._serve, name="proxy", daemon=True).start()

    def _serve(self) -> None:
        self.connections.listen([self.sock])
        while True:
            now = time.monotonic()
            self.connections.expire(now)
            self._look_for_hub(now)
            self._finish(self._is_late, None)
            self.connections.turn(self._pause(now))

    def _look_for_hub(self, now: float) -> None:
        if self.problem or self.link.hub is not None:
            return
        try:
            self.link.poll(now)
        except OSError as error:
            self.problem = problem_of(error)
        if self.asked is not None and now > self.asked + self.link.endpoint.seconds:
            self.problem = self.link.endpoint.nobody(self.link.places)

    def _is_late(self, request: PendingRequest) -> bool:
        """Whether the hub was asked too long ago, or will not answer."""
        due = max(request.began, self.link.found) + PATIENCE.get(request.path, HOLD_SECONDS)
        return bool(self.problem or (self.link.hub and time.monotonic() > due))

    def _pause(self, now: float) -> float | None:
        """Return after how many seconds something is due without an event, None if nothing is."""
        if self.link.hub is None and not self.problem:
            return max(self.link.due - now, FIRST_PAUSE)
        return TICK_SECONDS if self.pending or self.connections.strangers else None

    def _talk(self, connection: Connection) -> Talk:
        """Handle one request from a client that sent the prefix."""
        request = parse_head((yield HEAD_END))
        prefix = self.prefix.encode()
        if request is None or not hmac.compare_digest(request[1][: len(prefix)].encode(), prefix):
            return
        self.connections.know(connection)
        method, path, length = request
        self._asked(connection, method, path[len(prefix) :], (yield length))
        yield LONGEST_BODY  # it says nothing more

    def _asked(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        """Answer a request, or pass it on to the hub."""
        scope, _, key = path.rpartition("/")
        name, now = f"{method} {path}", time.monotonic()
        self.asked = now if self.asked is None else self.asked
        if key.startswith("rank_"):
            # A rank's host name, with which Gloo only counts neighbours, for nobody.
            self._answer(connection, OK if method == "PUT" else NOT_FOUND)
        elif method == "PUT" and path != protocol.LAST:
            self._put(scope, key, body)
            self._answer(connection, OK)
        elif method == "DELETE" and scope in self.lists:
            self.columns.pop(self.lists.pop(scope), None)
            self._answer(connection, OK)
        elif scope in self.lists and key.isdecimal():
            name = self.lists[scope]
            self.pending.append(PendingRequest(connection, path, name, now))
            if name in self.columns:
                self._finish(lambda request: request.name == name, self.columns[name])
        else:
            self.met = self.met and path != protocol.MEET
            self.pending.append(PendingRequest(connection, path, name, now))
            self._send(Frame(name, body))

    def _put(self, scope: str, key: str, value: bytes) -> None:
        name = f"PUT {scope}/{key}"
        if key.isdecimal() and hub_state.is_list(value):
            name = self.lists[scope] = f"{protocol.LIST} {scope}/{key}"
            self.columns.pop(name, None)
        self._send(Frame(name, value))

    def _send(self, frame: Frame) -> None:
        if not self.problem:
            self.link.send(frame)

    def _heard(self, frame: Frame) -> None:
        if frame.name == protocol.PROBLEM:
            self.problem = Problem.of_data(json.loads(frame.value))
        elif frame.name == protocol.VERDICT:
            self.link.endpoint.deliver(None, frame.value)
        else:
            self.met = self.met or frame.name.endswith(protocol.MEET)
            value = frame.value
            if frame.name in self.lists.values():
                value = self.columns[frame.name] = zlib.decompress(value)
            self._finish(lambda request: request.name == frame.name, value)

    def _finish(self, ready: Callable[[PendingRequest], bool], value: bytes | None) -> None:
        """Answer the requests that are `ready`; `value` is None where the hub has not answered."""
        finished = [request for request in self.pending if ready(request)]
        self.pending = [request for request in self.pending if request not in finished]
        for request in finished:
            body = self._body(request, value)
            # After three failures Horovod gives up, instead of asking on until its time limit.
            status = OK if body is not None else FAILED if self.problem else NOT_FOUND
            self._answer(request.connection, status, body or b"")

    def _body(self, request: PendingRequest, value: bytes | None) -> bytes | None:
        """Return the body that the hub's answer is for a request."""
        if request.path in PATIENCE:
            problem = self.problem and vars(self.problem)
            answer = {"answer": json.loads(value or b"null"), "problem": problem}
            return json.dumps({**answer, "gloo": self.link.gloo}).encode()
        if value and request.name in self.columns:
            owner, reader = (int(path.rpartition("/")[2]) for path in (request.path, request.name))
            return hub_state.filled(value, owner, reader)
        return value

    def _answer(self, connection: Connection, status: str, body: bytes = b"") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.connections.send(connection, head.encode() + body, last=True)

    def _ended(self, connection: Connection) -> None:
        if connection is self.link.hub and not self.problem:
            before = "" if self.met else " before all had met"
            fields = {**NOBODY_ABSENT, "ended": [[0, ""]]}
            self.problem = Problem(FailureKind.NOT_MET, f"rank 0 ended{before}", fields)


class Link:
    """A rank's link to the hub, among the `connections` of its proxy; `heard` gets each frame."""

    def __init__(
        self, endpoint: Endpoint, connections: Connections, heard: Callable[[Frame], None]
    ) -> None:
        self.endpoint, self.connections, self.heard = endpoint, connections, heard
        self.hub: Connection | None = None
        self.found = 0.0  # when
        self.gloo: dict[str, str] = {}
        self.places: Sequence[tuple[str, int]] = ()
        self.trying: list[Connection] = []
        self.due, self.pause = 0.0, FIRST_PAUSE
        self.unsent: list[Frame] = []  # of before it was found

    def poll(self, now: float) -> None:
        """Try to connect to all addresses of the hub, if it is time to."""
        waits = any(
            not connection.closed and now < connection.began + CONNECT_SECONDS
            for connection in self.trying
        )
        if self.hub is not None or now < self.due or waits:
            return
        self._end_tries()
        self.places = self.endpoint.places()
        talks = [(place, partial(self._talk, place)) for place in self.places]
        self.trying = [self.connections.connect(place, talk) for place, talk in talks]
        self.due, self.pause = now + self.pause, min(self.pause * 1.5, LONGEST_PAUSE)

    def send(self, frame: Frame) -> None:
        """Send a frame, once the hub is found."""
        if self.hub is None:
            self.unsent.append(frame)
        else:
            self.connections.send(self.hub, frame.pack())

    def _talk(self, place: tuple[str, int], connection: Connection) -> Talk:
        opening = Opening(self.endpoint.secret, self.endpoint.job, place)
        self.connections.send(connection, opening.hello())
        last = opening.last((yield protocol.OPENING))
        if last is None or self.hub is not None:
            return
        self.hub, self.found = connection, time.monotonic()
        self._end_tries()
        self.gloo = self.endpoint.gloo(connection)
        who = {**self.endpoint.who, "address": self.gloo["address"]}
        frames = [Frame(protocol.HELLO, json.dumps(who).encode()), *self.unsent]
        self.connections.send(connection, last + b"".join(frame.pack() for frame in frames))
        yield from protocol.frames(self.heard)

    def _end_tries(self) -> None:
        for connection in self.trying:
            if connection is not self.hub:
                self.connections.end(connection)
        self.trying = []
