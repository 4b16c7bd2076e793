"""Each rank's own key-value store, to which its Horovod talks over loopback, in Horovod's words.

Horovod's client (0.28.1, http_store.cc) opens a connection for each request, knows only IPv4, takes
404 as "not yet" and asks again after 10 ms, and makes about 2.5 requests for every other rank.
These requests end on the own host, and wait until there is an answer; to rank 0 goes one frame for
each scope. The URL holds a secret of this process: other users of the host get nothing.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable

from ... import failure_kinds as kinds
from ...addresses import LOOPBACK
from ..failure import Problem, problem_of
from . import connections, protocol, roll
from .connections import Connection, Connections, Talk
from .protocol import Frame
from .roll import NOBODY_ABSENT

# What a trainer's process, or its shim, asks here (session.py)
MEETING, PLACE = "runner/meet", "runner/place"
TELL, LAST, VERDICT = "runner/tell", "runner/last", "runner/verdict"
HOLD_SECONDS = 5.0  # how long a GET waits; in between Horovod looks at its own time limit
TICK_SECONDS = 0.5
LONGEST_BODY = 1 << 26
PLACE_SECONDS = 60.0  # in which another node's rank must have come, to show the way to rank 0
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


@dataclass
class PendingRequest:
    """One that waits, until `ready` or for `seconds`, for what `answer` returns then."""

    connection: Connection
    ready: Callable[[], bool]
    answer: Callable[[], tuple[str, bytes]]
    seconds: float
    began: float


class Store:
    """Listens on loopback at once; answers when `start` has found the hub.

    `go` is what the hub said when all had met, `problem` why they did not, `master` where the hub
    says that rank 0 is. `mail` is what other ranks told, and what rank 0 decided; `wake` is called
    when some has come. One thread, in which nothing blocks.
    """

    def __init__(self) -> None:
        self.sock = connections.listen([LOOPBACK])[0]
        self.port = int(self.sock.getsockname()[1])
        self.token = os.urandom(16).hex()
        self.waiting: list[PendingRequest] = []
        self.asked: float | None = None  # when Horovod first did
        self.go: dict[str, Any] | None = None
        self.master: dict[str, Any] | None = None
        self.problem: Problem | None = None
        self.values: dict[tuple[str, str], Frame] = {}
        self.acknowledged: set[str] = set()
        self.mail: deque[Frame] = deque()
        self.wake: Callable[[], None] = lambda: None

    @property
    def prefix(self) -> str:
        """The start of every path, as Horovod makes it of `variables`."""
        return f"/{self.token}:{self.port}/"

    @property
    def variables(self) -> dict[str, str]:
        """Horovod's way here: it puts http:// before ADDR, and `:PORT/scope/key` behind it."""
        return {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{LOOPBACK}:{self.port}/{self.token}",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.port),
        }

    def start(self, settings: protocol.LinkSettings) -> None:
        """Serve in a daemon thread until this process ends."""
        self.connections = Connections(0, self._talk, self._ended)
        self.link = protocol.Link(settings, self.connections, self._heard)
        threading.Thread(target=self._serve, name="store", daemon=True).start()

    def _serve(self) -> None:
        self.connections.listen([self.sock])
        while True:
            now = time.monotonic()
            self.connections.expire(now)
            self._look_for_hub(now)
            self._answer_ready(now)
            self.connections.turn(self._pause(now))

    def _look_for_hub(self, now: float) -> None:
        if self.problem or self.link.hub is not None:
            return
        try:
            self.link.look(now)
        except OSError as error:
            self.problem = problem_of(error)
        if self.asked is not None and now > self.asked + self.link.settings.seconds:
            self.problem = self.link.settings.nobody(self.link.places)

    def _pause(self, now: float) -> float | None:
        """Return after how many seconds there is something to do though nobody speaks."""
        if self.link.hub is None and not self.problem:
            return max(self.link.due - now, protocol.FIRST_PAUSE)
        return TICK_SECONDS if self.waiting or self.connections.strangers else None

    def _answer_ready(self, now: float) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            over = self.link.hub is not None and now > one.seconds + max(one.began, self.link.found)
            if self.problem or over or one.ready():
                self._answer(one.connection, *one.answer())
            elif not one.connection.closed:
                self.waiting.append(one)

    def _answer(self, connection: Connection, status: str, body: bytes = b"") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.connections.send(connection, head.encode() + body, last=True)

    def _talk(self, connection: Connection) -> Talk:
        """Hear one request, of whom knows the prefix."""
        request = parse_head((yield HEAD_END))
        prefix = self.prefix.encode()
        if request is None or not hmac.compare_digest(request[1][: len(prefix)].encode(), prefix):
            return
        self.connections.know(connection)
        method, path, length = request
        self._asked(connection, method, path[len(prefix) :], (yield length))
        yield LONGEST_BODY  # it says nothing more

    def _asked(self, connection: Connection, method: str, name: str, body: bytes) -> None:
        """Answer a request, or let it wait until that can be done."""
        scope, _, key = name.rpartition("/")
        now = time.monotonic()
        if self.asked is None:
            self.asked = now

        def wait(
            ready: Callable[[], bool],
            answer: Callable[[], tuple[str, bytes]],
            seconds: float = HOLD_SECONDS,
        ) -> None:
            self.waiting.append(PendingRequest(connection, ready, answer, seconds, now))

        if name == MEETING:  # tell the hub that this rank is in hvd.init()
            self.go = None
            self._send(Frame(protocol.MEET))
            wait(lambda: self.go is not None, lambda: self._told(go=self.go), math.inf)
        elif name == PLACE:  # ask the hub where rank 0 is
            self._send(Frame(protocol.WHERE))
            wait(
                lambda: self.master is not None,
                lambda: self._told(master=self.master),
                PLACE_SECONDS,
            )
        elif name in (TELL, VERDICT):
            kind = protocol.TELL if name == TELL else protocol.VERDICT
            self._send(Frame(kind, value=body))
            self._answer(connection, OK)
        elif name == LAST:
            self._send(Frame(protocol.TELL, protocol.LAST, value=body))
            wait(lambda: protocol.LAST in self.acknowledged, lambda: (OK, b""))
        elif method == "PUT":
            self._put(scope, key, body)
            self._answer(connection, OK)
        elif method == "DELETE":
            self.acknowledged.discard(scope)
            self._send(Frame(protocol.DONE, scope))
            wait(lambda: scope in self.acknowledged, lambda: self._forget(scope))
        elif key.startswith("rank_"):
            self._answer(connection, NOT_FOUND)
        else:
            wait(lambda: (scope, key) in self.values, lambda: self._value(scope, key))

    def _told(self, **what: Any) -> tuple[str, bytes]:
        problem = self.problem and self.problem.as_json()
        return OK, json.dumps({**what, "problem": problem, "gloo": self.link.gloo}).encode()

    def _put(self, scope: str, key: str, value: bytes) -> None:
        self.values[scope, key] = Frame(protocol.VALUE, scope, key, value)
        # rank_N is the host's name of a rank, with which Gloo only counts neighbours, for nobody:
        # it takes 404 for an answer, so nothing of it needs to travel.
        if not key.startswith("rank_"):
            self._send(Frame(protocol.PUT, scope, key, value))

    def _value(self, scope: str, key: str) -> tuple[str, bytes]:
        if frame := self.values.get((scope, key)):
            # Not when it comes: with 1,024 ranks the full lists of a scope are 143 MB on each.
            entry = frame.kind == protocol.ENTRY
            return OK, roll.fill(frame.value) if entry else frame.value
        # After three failures Horovod gives up, instead of asking on until its time limit.
        return (FAILED if self.problem else NOT_FOUND), b""

    def _forget(self, scope: str) -> tuple[str, bytes]:
        """Forget a scope that has been read, as the hub has, before Horovod goes on.

        Else a rank that comes back soon would read what this one put the last time.
        """
        self.values = {name: value for name, value in self.values.items() if name[0] != scope}
        return OK, b""

    def _send(self, frame: Frame) -> None:
        if not self.problem:
            self.link.send(frame)

    def _ended(self, connection: Connection) -> None:
        if connection is self.link.hub and not self.problem:
            before = "" if self.go else " before all had met"
            fields = {**NOBODY_ABSENT, "ended": [[0, ""]]}
            self.problem = Problem(kinds.NOT_MET, f"rank 0 ended{before}", fields)

    def _heard(self, frame: Frame) -> None:
        if frame.kind in (protocol.VALUE, protocol.ENTRY):
            self.values[frame.scope, frame.key] = frame
        elif frame.kind == protocol.GO:
            self.go = json.loads(frame.value)
        elif frame.kind == protocol.MASTER:
            self.master = json.loads(frame.value)
        elif frame.kind == protocol.PROBLEM:
            self.problem = Problem(**json.loads(frame.value))
        elif frame.kind == protocol.ACK:
            self.acknowledged.add(frame.scope)
        elif frame.kind in (protocol.TELL, protocol.VERDICT):
            self.mail.append(frame)
            if len(self.mail) == 1:  # else the reader knows already
                self.wake()
