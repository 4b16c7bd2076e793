"""What rank 0's hub and the ranks' stores say to each other over TCP, and the secret behind it.

The secret is a file in the run's folder that only its owner can read. It never travels: three
proofs that both sides know it open a connection. They hold for one address and port of the hub, so
that nobody elsewhere can pass them on. The rank speaks first, so a stranger never hears a word:

    rank  nonce 1, proof(hello)        hub  nonce 2, proof(hub)        rank  proof(rank)

Then frames: kind, scope, key, value. From a rank: HELLO (who it is), WHERE (is rank 0), MEET (it is
in hvd.init()), PUT (a value, and that it wants those of the others), DONE (it has read all of a
scope). From the hub: MASTER (the answer to WHERE), GO (all have met), PROBLEM (they will not),
VALUE, ENTRY (what the reader needs of a value, see values.py), ACK (of DONE, and of a last TELL).
TELL goes from a rank to rank 0 (see referee.py), and VERDICT from rank 0 to all.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
import time
from dataclasses import dataclass

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
            found = file.read()
        if len(found) == SECRET_BYTES:
            return found
        if time.monotonic() > deadline:
            raise OSError(f"{path} is no secret of {SECRET_BYTES} bytes: remove it")
        time.sleep(0.05)


class WireError(Exception):
    """The other side does not speak this language."""


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
