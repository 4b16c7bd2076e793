"""What rank 0's hub and the ranks' stores say to each other over TCP, and the secret behind it.

The secret is a file in the run's folder that only its owner can read. It never travels: three
proofs that both sides know it open a connection. They hold for one address and port of the hub, so
that nobody elsewhere can pass them on. The rank speaks first, so a stranger never hears a word:

    rank  nonce 1, proof(hello)        hub  nonce 2, proof(hub)        rank  proof(rank)

Then frames: kind, scope, key, value. From a rank: HELLO (who it is), WHERE (is rank 0), MEET (it is
in hvd.init()), PUT (a value, and that it wants those of the others), DONE (it has read all of a
scope). From the hub: MASTER (the answer to WHERE), GO (all have met), PROBLEM (they will not),
VALUE, ENTRY (what the reader needs of a value, see roll.py), ACK (of DONE, and of a last TELL).
TELL goes from a rank to rank 0 (see referee.py), and VERDICT from rank 0 to all.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from ..failure import Problem
from .connections import Connection, Connections, Talk, WireError

NONCE = 16
PROOF = 32
OPENING = NONCE + PROOF
SECRET, SECRET_BYTES = ".rendezvous-secret", 32
SECONDS_TO_WRITE = 10.0  # for another task that has begun to write the secret

HELLO, WHERE, MEET, PUT, DONE = b"H", b"W", b"M", b"P", b"D"
MASTER, GO, PROBLEM, VALUE, ENTRY, ACK = b"R", b"G", b"X", b"V", b"E", b"A"
TELL, VERDICT = b"T", b"J"
LAST = "last"  # the scope of a rank's last TELL

HEAD = struct.Struct(">cHHI")  # kind, then the lengths of scope, key and value
LONGEST = 1 << 26  # bytes of a value: Gloo's addresses of 490,000 ranks
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two looks for the hub
CONNECT_SECONDS = 2.0  # an interface that leads nowhere never answers


def secret_of(run_dir: str) -> bytes:
    """Return the run's secret; the first task to ask makes it. Raises OSError."""
    path = os.path.join(run_dir, SECRET)
    with contextlib.suppress(FileExistsError):  # another task was faster: it is everybody's
        # O_EXCL: only one of all tasks on all nodes makes it, on NFS too.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(SECRET_BYTES))
    deadline = time.monotonic() + SECONDS_TO_WRITE
    while True:
        with open(path, "rb") as file:
            secret = file.read()
        if len(secret) == SECRET_BYTES:
            return secret
        if time.monotonic() > deadline:
            raise OSError(f"{path} is no secret of {SECRET_BYTES} bytes: remove it")
        time.sleep(0.05)


@dataclass(frozen=True)
class Frame:
    """One message. PUT, VALUE and ENTRY use all fields, the others only some."""

    kind: bytes
    scope: str = ""
    key: str = ""
    value: bytes = b""

    def pack(self) -> bytes:
        scope, key = self.scope.encode(), self.key.encode()
        head = HEAD.pack(self.kind, len(scope), len(key), len(self.value))
        return head + scope + key + self.value


def length_after(head: bytes) -> int:
    """Return how many bytes of a frame come after its head. Raises WireError."""
    _, scope, key, value = HEAD.unpack(head)
    if value > LONGEST:
        raise WireError(f"a value of {value} bytes")
    return int(scope + key + value)


def unpack(head: bytes, rest: bytes) -> Frame:
    """Return the frame. Raises UnicodeDecodeError."""
    kind, scope, key, _ = HEAD.unpack(head)
    value = scope + key
    return Frame(kind, rest[:scope].decode(), rest[scope:value].decode(), rest[value:])


class Opening:
    """The three proofs, from either side. `job` names the job step, `place` is where the hub is."""

    def __init__(self, secret: bytes, job: str, place: tuple[str, int]) -> None:
        self.secret, self.job = secret, f"{job} {place[0]} {place[1]}".encode()
        self.first = self.second = b""

    def hello(self) -> bytes:
        """The rank's first words."""
        self.first = os.urandom(NONCE)
        return self.first + self._proof(b"hello", self.first)

    def answer(self, hello: bytes) -> bytes | None:
        """The hub's answer to them; None for a stranger."""
        self.first, claimed = hello[:NONCE], hello[NONCE:]
        if not hmac.compare_digest(claimed, self._proof(b"hello", self.first)):
            return None
        self.second = os.urandom(NONCE)
        return self.second + self._proof(b"hub", self.first, self.second)

    def last(self, answer: bytes) -> bytes | None:
        """The rank's last words; None when it is not this job's hub that answered."""
        self.second, claimed = answer[:NONCE], answer[NONCE:]
        if not hmac.compare_digest(claimed, self._proof(b"hub", self.first, self.second)):
            return None
        return self._proof(b"rank", self.first, self.second)

    def complete(self, last: bytes) -> bool:
        """Whether the last words are right, as the hub judges."""
        return hmac.compare_digest(last, self._proof(b"rank", self.first, self.second))

    def _proof(self, *parts: bytes) -> bytes:
        text = b"".join(len(part).to_bytes(4, "big") + part for part in (self.job, *parts))
        return hmac.new(self.secret, text, hashlib.sha256).digest()


@dataclass(frozen=True)
class LinkSettings:
    """How a rank finds the hub. `places` returns where it may be, as far as is known by now.

    `who` is the rank, for the hub; `gloo` tells through what Gloo will talk, where a connection
    leads to the hub. `nobody` says why there is none `seconds` after Horovod has asked for it, at
    the places that were tried.
    """

    places: Callable[[], Sequence[tuple[str, int]]]
    secret: bytes
    job: str
    who: Mapping[str, Any]
    gloo: Callable[[Connection], dict[str, str]]
    nobody: Callable[[Sequence[tuple[str, int]]], Problem]
    seconds: float


class Link:
    """Uses the `connections` of a store; `heard` is called with each frame."""

    def __init__(
        self, settings: LinkSettings, connections: Connections, heard: Callable[[Frame], None]
    ) -> None:
        self.settings, self.connections, self.heard = settings, connections, heard
        self.hub: Connection | None = None
        self.found = 0.0  # when
        self.gloo: dict[str, str] = {}
        self.places: Sequence[tuple[str, int]] = ()
        self.trying: list[Connection] = []
        self.due, self.pause = 0.0, FIRST_PAUSE
        self.unsent: list[Frame] = []  # of before it was found

    def look(self, now: float) -> None:
        """Try all places where the hub may be, if it is time to."""
        waits = any(not one.closed and now < one.began + CONNECT_SECONDS for one in self.trying)
        if self.hub is not None or now < self.due or waits:
            return
        self._end_tries()
        self.places = self.settings.places()
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
        opening = Opening(self.settings.secret, self.settings.job, place)
        self.connections.send(connection, opening.hello())
        last = opening.last((yield OPENING))
        if last is None or self.hub is not None:
            return
        self.hub, self.found = connection, time.monotonic()
        self._end_tries()
        self.gloo = self.settings.gloo(connection)
        who = {**self.settings.who, "address": self.gloo["address"]}
        frames = [Frame(HELLO, value=json.dumps(who).encode()), *self.unsent]
        self.connections.send(connection, last + b"".join(frame.pack() for frame in frames))
        while True:
            head = yield HEAD.size
            self.heard(unpack(head, (yield length_after(head))))

    def _end_tries(self) -> None:
        for connection in self.trying:
            if connection is not self.hub:
                self.connections.end(connection)
        self.trying = []
