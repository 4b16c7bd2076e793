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


@dataclass
class Scope:
    """One of Horovod's key-value scopes: who owns what, and which ranks read it at which slot."""

    values: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    readers: dict[int, int | None] = field(default_factory=dict)


class Exchange:
    """Passes values on as they come. `send` sends a frame to a rank."""

    def __init__(self, send: Callable[[int, Frame], None]) -> None:
        self.send = send
        self.scopes: dict[str, Scope] = {}

    def put(self, rank: int, frame: Frame) -> None:
        """Keep a value, pass it to the scope's other readers, and make its owner one of them."""
        scope = self.scopes.setdefault(frame.scope, Scope())
        for reader, slot in scope.readers.items():
            if reader != rank:
                self._pass_on(reader, slot, frame)
        if rank not in scope.readers:
            slot = scope.readers[rank] = int(frame.key) if frame.key.isdigit() else None
            for key, (owner, value) in scope.values.items():
                if owner != rank:
                    self._pass_on(rank, slot, Frame(protocol.VALUE, frame.scope, key, value))
        scope.values[frame.key] = rank, frame.value

    def _pass_on(self, reader: int, slot: int | None, frame: Frame) -> None:
        """Send a value: all of it, or of a list of Gloo's addresses the entry at the slot."""
        kind, value = protocol.VALUE, frame.value
        if slot is not None and frame.key.isdigit() and is_list(value):
            kind, value = protocol.ENTRY, cut(value, int(frame.key), slot)
        self.send(reader, Frame(kind, frame.scope, frame.key, value))

    def done(self, rank: int, name: str) -> None:
        """Forget what a rank put in a scope, all of which it has read, and tell it so."""
        scope = self.scopes.get(name, Scope())
        scope.values = {key: entry for key, entry in scope.values.items() if entry[0] != rank}
        scope.readers.pop(rank, None)
        if not scope.values:
            self.scopes.pop(name, None)
        self.send(rank, Frame(protocol.ACK, name))

    def forget(self, rank: int) -> None:
        """Send nothing more to a rank that has left."""
        for scope in self.scopes.values():
            scope.readers.pop(rank, None)
