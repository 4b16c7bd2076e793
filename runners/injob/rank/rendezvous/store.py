"""Each rank's own key-value store, to which its Horovod talks over loopback, in Horovod's words.

Horovod's client (0.28.1, http_store.cc) opens a connection for each request, knows only IPv4, takes
404 as "not yet" and asks again after 10 ms, and makes about 2.5 requests for every other rank.
These requests end on the own host, and wait until there is an answer; to rank 0 goes one frame for
each scope. The URL holds a secret of this process: other users of the host get nothing.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from typing import Any, Callable

from ... import failure_kinds as kinds
from ..problem import Problem
from . import http_messages, peer_address, protocol
from .connect import Link
from .errors import RendezvousError, of_system
from .protocol import Frame

HOLD_SECONDS = 5.0  # how long a GET waits; in between Horovod looks at its own time limit
MEETING = "runner/meet"
SILENT = 64  # connections; more are not Horovod's


class Store:
    """Listens on loopback at once; answers when `serve` has found the hub.

    `go` is what the hub said when all had met, `problem` why they did not.
    """

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(64)
        self.port = int(self.sock.getsockname()[1])
        self.token = os.urandom(16).hex()
        self.silent: list[socket.socket] = []  # connections that have not said anything yet
        self.link: Link | None = None
        self.gloo: dict[str, str] = {}
        self.go: dict[str, Any] | None = None
        self.problem: Problem | None = None
        self.values: dict[tuple[str, str], bytes] = {}
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

    def start(self, find: Callable[[socket.socket], Link], gloo: Callable[[Link], Any]) -> None:
        """Serve in a daemon thread until this process ends.

        `find` returns a link to the hub or raises RendezvousError; it is given the socket that
        becomes readable when Horovod asks. `gloo` tells through what Gloo will talk.
        """
        args = (find, gloo)
        threading.Thread(target=self.serve, args=args, name="store", daemon=True).start()

    def serve(self, find: Callable[[socket.socket], Link], gloo: Callable[[Link], Any]) -> None:
        """Serve for ever."""
        try:
            self.link = find(self.sock)
            self.gloo = gloo(self.link)
        except RendezvousError as error:
            self.problem = error.problem
        except OSError as error:
            self.problem = of_system(error)
        while True:
            with self._next() as conn:
                try:
                    self._serve_one(conn)
                except OSError:
                    continue  # the client has gone, and will ask again if it still wants to know

    def _next(self) -> socket.socket:
        """Return the first connection that has something to say: silent ones hold up nobody."""
        while True:
            ready = select.select([self.sock, *self.silent], [], [])[0]
            if self.sock in ready:
                self.silent.append(self.sock.accept()[0])
            if len(self.silent) > SILENT:
                self.silent.pop(0).close()
            talking = [conn for conn in self.silent if conn in ready]
            if talking:
                self.silent.remove(talking[0])
                return talking[0]

    def _serve_one(self, conn: socket.socket) -> None:
        request = http_messages.read(conn)
        if request is None or not request.path.startswith(self.prefix):
            return  # not our Horovod: not even an answer
        scope, _, key = request.path[len(self.prefix) :].rpartition("/")
        if f"{scope}/{key}" == MEETING:
            http_messages.answer(conn, http_messages.OK, self._meet())
        elif request.method == "PUT":
            self._put(scope, key, request.body)
            http_messages.answer(conn, http_messages.OK)
        elif request.method == "DELETE":
            self._done(scope)
            http_messages.answer(conn, http_messages.OK)
        else:
            http_messages.answer(conn, *self._get(scope, key))

    def _meet(self) -> bytes:
        """Tell the hub that this rank is in hvd.init(); return what came of it, as JSON."""
        self.go = None
        self._send(Frame(protocol.MEET, value=json.dumps(self.gloo).encode()))
        self._wait(lambda: self.go is not None, seconds=None)
        problem = self.problem and self.problem.as_json()
        return json.dumps({"go": self.go, "problem": problem, "gloo": self.gloo}).encode()

    def _put(self, scope: str, key: str, value: bytes) -> None:
        self.values[scope, key] = value
        # rank_N is the host's name of a rank, with which Gloo only counts neighbours, for nobody:
        # it takes 404 for an answer, so nothing of it needs to travel.
        if not key.startswith("rank_"):
            self._send(Frame(protocol.PUT, scope, key, value))

    def _get(self, scope: str, key: str) -> tuple[str, bytes]:
        if key.startswith("rank_"):
            return http_messages.NOT_FOUND, b""
        self._wait(lambda: (scope, key) in self.values, HOLD_SECONDS)
        if (scope, key) in self.values:
            return http_messages.OK, self.values[scope, key]
        # After three failures Horovod gives up, instead of asking on until its time limit.
        return (http_messages.FAILED if self.problem else http_messages.NOT_FOUND), b""

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
        ended = {"ended": [[0, ""]], "late": [], "silent": [], "unreached": []}
        self.problem = Problem(kinds.NOT_MET, text, ended)

    def _wait(self, ready: Callable[[], bool], seconds: float | None) -> None:
        """Hear the hub until something is there, the time is over, or there is a problem."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.link is not None and not self.problem and not ready():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            try:
                for frame in self.link.receive(left):
                    self._heard(frame)
            except OSError as error:
                self._lost(error)

    def _heard(self, frame: Frame) -> None:
        if frame.kind == protocol.VALUE:
            self.values[frame.scope, frame.key] = frame.value
        elif frame.kind == protocol.ENTRY:
            self.values[frame.scope, frame.key] = peer_address.fill(frame.value)
        elif frame.kind == protocol.GO:
            self.go = json.loads(frame.value)
        elif frame.kind == protocol.PROBLEM:
            self.problem = Problem(**json.loads(frame.value))
        elif frame.kind == protocol.ACK:
            self.acknowledged.add(frame.scope)
