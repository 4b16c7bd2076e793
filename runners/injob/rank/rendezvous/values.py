"""The values that ranks leave for each other, by scope; a rank that leaves one gets the others'.

Gloo (as in Horovod 0.28.1) opens a socket for each pair of ranks, and each rank publishes one
list: its addresses for all the others, in their order, itself left out. Everybody reads all lists
and takes one entry of each: N lists of N entries for N readers. Over the network only the entries
travel, and the reader's store fills up the rest of the list with zeros.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import Callable

from . import protocol
from .protocol import Frame

# Gloo's address: struct sockaddr_storage (128 bytes) and a number of ssize_t.
SIZE = 128 + struct.calcsize("n")
FAMILY = struct.Struct("=H")
FAMILIES = (int(socket.AF_INET), int(socket.AF_INET6))
HEAD = struct.Struct(">II")  # length of the whole list, position of the entry


def is_list(value: bytes) -> bool:
    """Whether the value is a list of Gloo's addresses; another Gloo's may be something else."""
    starts = range(0, len(value), SIZE)
    return len(value) % SIZE == 0 and all(
        FAMILY.unpack_from(value, start)[0] in FAMILIES for start in starts
    )


def cut(value: bytes, owner: int, reader: int) -> bytes:
    """Return the reader's entry of the owner's list, with its place."""
    start = SIZE * (reader - 1 if reader > owner else reader)
    return HEAD.pack(len(value), start) + value[start : start + SIZE]


def fill(entry: bytes) -> bytes:
    """Return a list with only this entry in it, as long as the whole."""
    length, start = HEAD.unpack_from(entry)
    body = entry[HEAD.size :]
    return bytes(start) + body + bytes(length - start - len(body))


@dataclass(frozen=True)
class Value:
    """What a rank left under a key. Whether that is a list is found out once, not for each reader.

    A look at all its addresses for each reader would grow with the cube of the number of ranks.
    """

    owner: int
    frame: Frame
    cuttable: bool

    def to(self, slot: int | None) -> Frame:
        """Return it for a reader: all of it, or of a list of Gloo's addresses its entry."""
        if slot is None or not self.cuttable:
            return self.frame
        entry = cut(self.frame.value, int(self.frame.key), slot)
        return Frame(protocol.ENTRY, self.frame.scope, self.frame.key, entry)


@dataclass
class Scope:
    """One of Horovod's key-value scopes: who owns what, and which ranks read it at which slot."""

    values: dict[str, Value] = field(default_factory=dict)
    readers: dict[int, int | None] = field(default_factory=dict)


class Exchange:
    """Passes values on as they come. `send` sends a frame to a rank."""

    def __init__(self, send: Callable[[int, Frame], None]) -> None:
        self.send = send
        self.scopes: dict[str, Scope] = {}

    def put(self, rank: int, frame: Frame) -> None:
        """Keep a value, pass it to the scope's other readers, and make its owner one of them."""
        scope = self.scopes.setdefault(frame.scope, Scope())
        whole = Frame(protocol.VALUE, frame.scope, frame.key, frame.value)
        value = Value(rank, whole, frame.key.isdigit() and is_list(frame.value))
        for reader, slot in scope.readers.items():
            if reader != rank:
                self.send(reader, value.to(slot))
        if rank not in scope.readers:
            slot = scope.readers[rank] = int(frame.key) if frame.key.isdigit() else None
            for other in scope.values.values():
                if other.owner != rank:
                    self.send(rank, other.to(slot))
        scope.values[frame.key] = value

    def done(self, rank: int, name: str) -> None:
        """Forget what a rank put in a scope, all of which it has read, and tell it so."""
        scope = self.scopes.get(name, Scope())
        scope.values = {key: one for key, one in scope.values.items() if one.owner != rank}
        scope.readers.pop(rank, None)
        if not scope.values:
            self.scopes.pop(name, None)
        self.send(rank, Frame(protocol.ACK, name))

    def forget(self, rank: int) -> None:
        """Send nothing more to a rank that has left."""
        for scope in self.scopes.values():
            scope.readers.pop(rank, None)
