"""The protocol between rank 0's hub and the ranks' proxies over TCP, and its secret.

The secret is a file in the run's folder that only its owner can read. It never travels: three
proofs that both sides know it open a connection. They hold for one address and port of the hub, so
that nobody elsewhere can pass them on. The rank speaks first, so a stranger never gets an answer:

    rank  nonce 1, proof(hello)        hub  nonce 2, proof(hub)        rank  proof(rank)

Then the rank sends its number and host (HELLO), and each frame is a request, of a name and a value,
or the answer to the request of that name. Requests are Horovod's, such as `GET scope/key`; a LIST,
which is answered with this rank's column of all lists (hub_state.py); and the shims' own:
where rank 0 is (PLACE), that a rank is in hvd.init() (MEET), what it tells rank 0 (TELL, LAST), and
what rank 0 tells the others (VERDICT). PROBLEM says that the ranks will not meet.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
import time
from dataclasses import dataclass
from typing import Callable

from .connections import Talk, WireError

NONCE = 16
PROOF = 32
OPENING = NONCE + PROOF
SECRET, SECRET_BYTES = ".rendezvous-secret", 32
SECONDS_TO_WRITE = 10.0  # for another task that has begun to write the secret

HELLO, LIST, PROBLEM = "HELLO", "LIST", "PROBLEM"
MEET, PLACE, VERDICT = "runner/meet", "runner/place", "runner/verdict"
TELL, LAST = "runner/tell", "runner/last"  # the second one has arrived when it is answered

HEAD = struct.Struct(">HI")  # the lengths of name and value
LONGEST = 1 << 26  # bytes of a value: Gloo's addresses of 490,000 ranks


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
    """One message: a request or its answer."""

    name: str
    value: bytes = b""

    def pack(self) -> bytes:
        name = self.name.encode()
        return HEAD.pack(len(name), len(self.value)) + name + self.value


def frames(heard: Callable[[Frame], None]) -> Talk:
    """Read frame after frame, and call `heard`. Raises WireError and UnicodeDecodeError."""
    while True:
        name, value = HEAD.unpack((yield HEAD.size))
        if value > LONGEST:
            raise WireError(f"a value of {value} bytes")
        rest = yield name + value
        heard(Frame(rest[:name].decode(), rest[name:]))


class Opening:
    """The three proofs, from either side. `job` names the job step, `place` is where the hub is."""

    def __init__(self, secret: bytes, job: str, place: tuple[str, int]) -> None:
        self.secret, self.job = secret, f"{job} {place[0]} {place[1]}".encode()
        self.first = self.second = b""

    def hello(self) -> bytes:
        """Return the rank's opening message."""
        self.first = os.urandom(NONCE)
        return self.first + self._proof(b"hello", self.first)

    def answer(self, hello: bytes) -> bytes | None:
        """Return the hub's answer to it; None for a stranger."""
        self.first, claimed = hello[:NONCE], hello[NONCE:]
        if not hmac.compare_digest(claimed, self._proof(b"hello", self.first)):
            return None
        self.second = os.urandom(NONCE)
        return self.second + self._proof(b"hub", self.first, self.second)

    def last(self, answer: bytes) -> bytes | None:
        """Return the rank's last proof; None if the answer is not from this job's hub."""
        self.second, claimed = answer[:NONCE], answer[NONCE:]
        if not hmac.compare_digest(claimed, self._proof(b"hub", self.first, self.second)):
            return None
        return self._proof(b"rank", self.first, self.second)

    def complete(self, last: bytes) -> bool:
        """Return whether the last proof is right, as the hub checks it."""
        return hmac.compare_digest(last, self._proof(b"rank", self.first, self.second))

    def _proof(self, *parts: bytes) -> bytes:
        text = b"".join(len(part).to_bytes(4, "big") + part for part in (self.job, *parts))
        return hmac.new(self.secret, text, hashlib.sha256).digest()
