"""What the hub keeps: which ranks have started, wait in hvd.init(), or are missing, and where; and
the values that ranks leave for each other, by scope. Pure bookkeeping.

Gloo (as in Horovod 0.28.1) opens a socket for each pair of ranks, and each rank publishes one
list: its addresses for all the others, in their order, itself left out. Everybody reads all lists
and takes one entry of each: N lists of N entries for N readers. Over the network only the entries
travel, and the reader's store fills up the rest of the list with zeros.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from . import protocol
from .protocol import Frame

NAMED = 8  # ranks that a message names; the rest is counted
# Why a rank is not in hvd.init(), as one rank and as several of them are told of.
ABSENT = {
    "silent": ("has not started", "have not started"),
    "late": ("has started, but not called hvd.init()", "have started, but not called hvd.init()"),
    "ended": ("ended before all had met", "ended before all had met"),
}
# The fields of a problem of the kind NOT_MET
NOBODY_ABSENT: dict[str, list[Any]] = {"ended": [], "late": [], "silent": [], "unreached": []}
# Gloo's address: struct sockaddr_storage (128 bytes) and a number of ssize_t.
SIZE = 128 + struct.calcsize("n")
FAMILY = struct.Struct("=H")
FAMILIES = (int(socket.AF_INET), int(socket.AF_INET6))
HEAD = struct.Struct(">II")  # length of the whole list, position of the entry


@dataclass
class Member:
    """A rank that has started. `address` is what Gloo will publish for it, empty when unknown."""

    host: str
    local_rank: int
    address: str = ""
    waits: bool = False
    ended: bool = False


@dataclass
class Roll:
    """All ranks of a job of `size`; `hosts` is the node on which each should be, or empty."""

    size: int
    hosts: Sequence[str] = ()
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def started(self) -> bool:
        return len(self.members) == self.size

    @property
    def complete(self) -> bool:
        """Whether every rank waits in hvd.init()."""
        return self.started and all(one.waits and not one.ended for one in self.members.values())

    def dismiss(self) -> None:
        """Let all ranks go: they may meet again after hvd.shutdown()."""
        for member in self.members.values():
            member.waits = False

    def absent(self) -> dict[str, list[tuple[int, str]]]:
        """Return who is not in hvd.init(): each rank with its host, "" where it is not known."""
        came = sorted(self.members.items())
        silent = [rank for rank in range(self.size) if rank not in self.members]
        return {
            **NOBODY_ABSENT,
            "ended": [(rank, one.host) for rank, one in came if one.ended],
            "late": [(rank, one.host) for rank, one in came if not one.waits and not one.ended],
            "silent": [(rank, self.hosts[rank] if self.hosts else "") for rank in silent],
        }

    def missing(self, *ways: str) -> str:
        """Say which ranks are absent in these ways, and where they are or should be."""
        absent, sentences = self.absent(), []
        for way in ways:
            pattern = "{} (on {})" if way == "silent" else "{}@{}"
            names = [pattern.format(*one) if one[1] else str(one[0]) for one in absent[way]]
            if names:
                sentences.append(f"{_listed(names)} {ABSENT[way][len(names) > 1]}")
        return "; ".join(sentences)

    def families(self) -> str:
        """Say so when some ranks' Gloo would talk IPv4 and others' IPv6, which it cannot."""
        known = [(rank, one) for rank, one in sorted(self.members.items()) if one.address]
        old = [f"{rank}@{one.host}" for rank, one in known if ":" not in one.address]
        new = [f"{rank}@{one.host}" for rank, one in known if ":" in one.address]
        if not old or not new:
            return ""
        return f"Gloo would use IPv4 on {_listed(old)}, but IPv6 on {_listed(new)}"

    def places(self) -> dict[int, dict[str, int]]:
        """Return local and cross rank and size of every rank, once all have started.

        Hosts count in the order of their first ranks. The launcher's local ranks stay where they
        number a host's ranks from 0, else the order of the ranks does.
        """
        by_host: dict[str, list[int]] = {}
        for rank in range(self.size):
            by_host.setdefault(self.members[rank].host, []).append(rank)
        columns = [self._by_local_rank(ranks) for ranks in by_host.values()]
        return {
            rank: {
                "local_rank": local,
                "local_size": len(column),
                "cross_rank": sum(len(one) > local for one in columns[:node]),
                "cross_size": sum(len(one) > local for one in columns),
            }
            for node, column in enumerate(columns)
            for local, rank in enumerate(column)
        }

    def _by_local_rank(self, ranks: list[int]) -> list[int]:
        ordered = sorted(ranks, key=lambda rank: self.members[rank].local_rank)
        numbers = [self.members[rank].local_rank for rank in ordered]
        return ordered if numbers == list(range(len(ranks))) else ranks


def _listed(names: Sequence[str]) -> str:
    """`rank 3 (on n2)` or `ranks 3 (on n2), 5 (on n3)`, and how many more."""
    shown = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"rank{'s' if len(names) > 1 else ''} {shown}{more}"


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
