"""What rank 0's hub and the ranks' stores say to each other over TCP.

Three proofs open a connection. The rank speaks first, so a stranger never hears a word:

    rank  nonce 1, proof(hello)        hub  nonce 2, proof(hub)        rank  proof(rank)

Then frames: kind, scope, key, value. From a rank: HELLO (who it is), MEET (it is in hvd.init()),
PUT (a value, and that it wants those of the others), DONE (it has read all of a scope). From the
hub: GO (all have met), PROBLEM (they will not), VALUE, ENTRY (what the reader needs of a value, see
slots.py), ACK (of DONE).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from . import secret as secrets

NONCE = 16
PROOF = 32
OPENING = NONCE + PROOF

HELLO, MEET, PUT, DONE = b"H", b"M", b"P", b"D"
GO, PROBLEM, VALUE, ENTRY, ACK = b"G", b"X", b"V", b"E", b"A"

HEAD = struct.Struct(">cHHI")  # kind, then the lengths of scope, key and value
LONGEST = 1 << 26  # bytes of a value: Gloo's addresses of 490,000 ranks


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
        """Return the bytes that travel."""
        scope, key = self.scope.encode(), self.key.encode()
        head = HEAD.pack(self.kind, len(scope), len(key), len(self.value))
        return head + scope + key + self.value


def unpack(data: bytearray) -> list[Frame]:
    """Take the complete frames off the front of `data`. Raises WireError."""
    frames, starts = [], 0
    while len(data) - starts >= HEAD.size:
        kind, scope, key, value = HEAD.unpack_from(data, starts)
        if value > LONGEST:
            raise WireError(f"a value of {value} bytes")
        scope_ends = starts + HEAD.size + scope
        key_ends = scope_ends + key
        ends = key_ends + value
        if ends > len(data):
            break
        names = data[scope_ends - scope : scope_ends], data[scope_ends:key_ends]
        frames.append(Frame(kind, names[0].decode(), names[1].decode(), bytes(data[key_ends:ends])))
        starts = ends
    del data[:starts]
    return frames


class Opening:
    """The three proofs, from either side. `job` names the job step."""

    def __init__(self, secret: bytes, job: str) -> None:
        self.secret, self.job = secret, job.encode()
        self.first = self.second = b""

    def hello(self) -> bytes:
        """The rank's first words."""
        self.first = os.urandom(NONCE)
        return self.first + self._proof(b"hello", self.first)

    def answer(self, hello: bytes) -> bytes | None:
        """The hub's answer to them; None for a stranger."""
        self.first, claimed = hello[:NONCE], hello[NONCE:]
        if not secrets.same(claimed, self._proof(b"hello", self.first)):
            return None
        self.second = os.urandom(NONCE)
        return self.second + self._proof(b"hub", self.first, self.second)

    def last(self, answer: bytes) -> bytes | None:
        """The rank's last words; None when it is not this job's hub that answered."""
        self.second, claimed = answer[:NONCE], answer[NONCE:]
        if not secrets.same(claimed, self._proof(b"hub", self.first, self.second)):
            return None
        return self._proof(b"rank", self.first, self.second)

    def complete(self, last: bytes) -> bool:
        """Whether the last words are right, as the hub judges."""
        return secrets.same(last, self._proof(b"rank", self.first, self.second))

    def _proof(self, *parts: bytes) -> bytes:
        return secrets.proof(self.secret, self.job, *parts)
