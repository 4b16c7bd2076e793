"""Each rank's own key-value store, to which its Horovod talks over loopback, in Horovod's words.

Horovod's client (0.28.1, http_store.cc) opens a connection for each request, knows only IPv4, takes
404 as "not yet" and asks again after 10 ms, and makes about 2.5 requests for every other rank.
These requests end on the own host, and wait until there is an answer; to rank 0 goes one frame for
each scope. The URL holds a secret of this process: other users of the host get nothing.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from io import BufferedIOBase
from typing import Any, Callable

from ... import failure_kinds as kinds
from ..problem import Problem, RendezvousError, problem_of
from . import protocol, values
from .join import MEETING, PLACE
from .membership import NOBODY_ABSENT
from .protocol import Frame, Link

HOLD_SECONDS = 5.0  # how long a GET waits; in between Horovod looks at its own time limit
REQUEST_SECONDS = 5.0
LONGEST_WAIT = 3600.0  # seconds; poll(2) takes no infinity
SILENT = 64  # connections; more are not Horovod's
LONGEST_LINE, LONGEST_BODY = 1 << 14, 1 << 26
PLACE_SECONDS = 60.0  # in which another node's rank must have come, to show the way to rank 0
OK, NOT_FOUND, FAILED = "200 OK", "404 Not Found", "500 Internal Server Error"


def read_request(file: BufferedIOBase) -> tuple[str, str, bytes] | None:
    """Read method, path and body of a request; None when it is none. Raises OSError.

    By hand, because http.server takes 30 ms to import, and as long as a request to read one.
    """
    words, length = file.readline(LONGEST_LINE).decode("latin-1").split(" "), 0
    while line := file.readline(LONGEST_LINE).decode("latin-1").strip():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            text = value.strip()
            length = int(text) if text.isdecimal() and len(text) < 10 else LONGEST_BODY + 1
    if len(words) != 3 or length > LONGEST_BODY:
        return None
    body = file.read(length)
    return (words[0], words[1], body) if len(body) == length else None


def answer(status: str, body: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class Store:
    """Listens on loopback at once; answers when `start` has found the hub.

    `go` is what the hub said when all had met, `problem` why they did not, `master` where the hub
    says that rank 0 is. One thread, which hears the hub while it waits for what Horovod has asked.
    """

    def __init__(self) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self.sock.getsockname()[1])
        self.token = os.urandom(16).hex()
        self.silent: list[socket.socket] = []  # connections that have not said anything yet
        self.link: Link | None = None
        self.gloo: dict[str, str] = {}
        self.go: dict[str, Any] | None = None
        self.master: dict[str, Any] | None = None
        self.problem: Problem | None = None
        self.values: dict[tuple[str, str], Frame] = {}
        self.acknowledged: set[str] = set()

    @property
    def prefix(self) -> str:
        """The start of every path, as Horovod makes it of `variables`."""
        return f"/{self.token}:{self.port}/"

    @property
    def variables(self) -> dict[str, str]:
        """Horovod's way here: it puts http:// before ADDR, and `:PORT/scope/key` behind it."""
        return {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"127.0.0.1:{self.port}/{self.token}",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.port),
        }

    @property
    def asked(self) -> bool:
        """Whether Horovod has asked for something that is not answered yet."""
        return bool(protocol.ready([self.sock], 0))

    def start(self, find: Callable[[], Link], gloo: Callable[[Link], dict[str, str]]) -> None:
        """Serve in a daemon thread until this process ends.

        `find` returns a link to the hub or raises RendezvousError; `gloo` tells through what Gloo
        will talk.
        """
        threading.Thread(target=self._serve, args=(find, gloo), name="store", daemon=True).start()

    def _serve(self, find: Callable[[], Link], gloo: Callable[[Link], dict[str, str]]) -> None:
        try:
            self.link = find()
            self.gloo = gloo(self.link)
        except (RendezvousError, OSError) as error:
            self.problem = problem_of(error)
        while True:
            with self._next() as conn, conn.makefile("rb") as file:
                try:
                    conn.settimeout(REQUEST_SECONDS)
                    request = read_request(file)
                    if request and request[1].startswith(self.prefix):  # else not our Horovod
                        conn.sendall(answer(*self._respond(*request)))
                except OSError:
                    continue  # the client has gone, and will ask again if it still wants to know

    def _next(self) -> socket.socket:
        """Return the first connection that has something to say: silent ones hold up nobody."""
        while True:
            ready = protocol.ready([self.sock, *self.silent])
            if self.sock in ready:
                self.silent.append(self.sock.accept()[0])
            if len(self.silent) > SILENT:
                self.silent.pop(0).close()
            talking = [conn for conn in self.silent if conn in ready]
            if talking:
                self.silent.remove(talking[0])
                return talking[0]

    def _respond(self, method: str, path: str, body: bytes) -> tuple[str, bytes]:
        """Return status and body of the answer to a request."""
        scope, _, key = path[len(self.prefix) :].rpartition("/")
        if f"{scope}/{key}" == MEETING:
            return OK, self._meet()
        if f"{scope}/{key}" == PLACE:
            return OK, self._place()
        if method == "PUT":
            self._put(scope, key, body)
        elif method == "DELETE":
            self._done(scope)
        else:
            return self._get(scope, key)
        return OK, b""

    def _meet(self) -> bytes:
        """Tell the hub that this rank is in hvd.init(); return what came of it, as JSON."""
        self.go = None
        self._send(Frame(protocol.MEET, value=self.gloo.get("address", "").encode()))
        self._wait(lambda: self.go is not None)
        return self._told(go=self.go)

    def _place(self) -> bytes:
        """Ask the hub where rank 0 is; return it as JSON, with the interface that leads there."""
        self._send(Frame(protocol.WHERE))
        self._wait(lambda: self.master is not None, PLACE_SECONDS)
        return self._told(master=self.master)

    def _told(self, **what: Any) -> bytes:
        problem = self.problem and self.problem.as_json()
        return json.dumps({**what, "problem": problem, "gloo": self.gloo}).encode()

    def _put(self, scope: str, key: str, value: bytes) -> None:
        self.values[scope, key] = Frame(protocol.VALUE, scope, key, value)
        # rank_N is the host's name of a rank, with which Gloo only counts neighbours, for nobody:
        # it takes 404 for an answer, so nothing of it needs to travel.
        if not key.startswith("rank_"):
            self._send(Frame(protocol.PUT, scope, key, value))

    def _get(self, scope: str, key: str) -> tuple[str, bytes]:
        if key.startswith("rank_"):
            return NOT_FOUND, b""
        self._wait(lambda: (scope, key) in self.values, HOLD_SECONDS)
        if found := self.values.get((scope, key)):
            # Not when it comes: with 1,024 ranks the full lists of a scope are 143 MB on each.
            entry = found.kind == protocol.ENTRY
            return OK, values.fill(found.value) if entry else found.value
        # After three failures Horovod gives up, instead of asking on until its time limit.
        return (FAILED if self.problem else NOT_FOUND), b""

    def _done(self, scope: str) -> None:
        """Forget a scope that has been read; the hub, too, before Horovod goes on.

        Else a rank that comes back soon would read what this one put the last time.
        """
        self.acknowledged.discard(scope)
        self._send(Frame(protocol.DONE, scope))
        self._wait(lambda: scope in self.acknowledged, HOLD_SECONDS)
        self.values = {name: value for name, value in self.values.items() if name[0] != scope}

    def _send(self, frame: Frame) -> None:
        if self.link is not None and not self.problem:
            try:
                self.link.send(frame)
            except OSError as error:
                self._lost(error)

    def _lost(self, error: OSError) -> None:
        before = "" if self.go else " before all had met"
        text = f"rank 0 ended{before} ({error})"
        self.problem = Problem(kinds.NOT_MET, text, {**NOBODY_ABSENT, "ended": [[0, ""]]})

    def _wait(self, ready: Callable[[], bool], seconds: float = math.inf) -> None:
        """Hear the hub until something is there, the time is over, or there is a problem."""
        deadline = time.monotonic() + seconds
        while self.link is not None and not self.problem and not ready():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            try:
                if protocol.ready([self.link.sock], min(left, LONGEST_WAIT)):
                    self._heard(self.link.receive())
            except OSError as error:
                self._lost(error)

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
