"""Keeps the hub's state: which ranks have started, wait in hvd.init(), or are missing, and where.

It also keeps the values that ranks store for each other, by scope. It sends nothing itself.

Gloo (as in Horovod 0.28.1) opens a socket for each pair of ranks, and each rank publishes one
list: its addresses for all the others, in their order, itself left out. Every rank reads all lists
and takes one entry of each: N lists of N entries for N readers. Over the network only the reader's
entries travel, together: its column. Its proxy fills up the rest of each list with zeros.
"""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

Answer = Callable[[bytes], None]
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


@dataclass
class Member:
    """A rank that has started. `address` is what Gloo will publish for it, empty when unknown.

    `server` is the address of its own server, which it sent when it began to wait for the others.
    """

    host: str
    local_rank: int
    address: str = ""
    waits: bool = False
    ended: bool = False
    server: str = ""


@dataclass
class RankTable:
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
        return self.started and all(
            member.waits and not member.ended for member in self.members.values()
        )

    def absent(self) -> dict[str, list[tuple[int, str]]]:
        """Return the ranks that are not in hvd.init(), each with its host, "" if unknown."""
        came = sorted(self.members.items())
        silent = [rank for rank in range(self.size) if rank not in self.members]
        return {
            **NOBODY_ABSENT,
            "ended": [(rank, member.host) for rank, member in came if member.ended],
            "late": [
                (rank, member.host)
                for rank, member in came
                if not member.waits and not member.ended
            ],
            "silent": [(rank, self.hosts[rank] if self.hosts else "") for rank in silent],
        }

    def missing(self, *ways: str) -> str:
        """Return a sentence on the ranks absent in these ways, and where they are or should be."""
        absent, sentences = self.absent(), []
        for way in ways:
            pattern = "{} (on {})" if way == "silent" else "{}@{}"
            names = [
                pattern.format(rank, host) if host else str(rank) for rank, host in absent[way]
            ]
            if names:
                sentences.append(f"{_listed(names)} {ABSENT[way][len(names) > 1]}")
        return "; ".join(sentences)

    def families(self) -> str:
        """Return a sentence if Gloo would use IPv4 on some ranks and IPv6 on others, else ""."""
        known = [(rank, member) for rank, member in sorted(self.members.items()) if member.address]
        old = [f"{rank}@{member.host}" for rank, member in known if ":" not in member.address]
        new = [f"{rank}@{member.host}" for rank, member in known if ":" in member.address]
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
                "cross_rank": sum(len(ranks) > local for ranks in columns[:node]),
                "cross_size": sum(len(ranks) > local for ranks in columns),
            }
            for node, column in enumerate(columns)
            for local, rank in enumerate(column)
        }

    def _by_local_rank(self, ranks: list[int]) -> list[int]:
        ordered = sorted(ranks, key=lambda rank: self.members[rank].local_rank)
        numbers = [self.members[rank].local_rank for rank in ordered]
        return ordered if numbers == list(range(len(ranks))) else ranks


def _listed(names: Sequence[str]) -> str:
    """Return `rank 3 (on n2)` or `ranks 3 (on n2), 5 (on n3)`, and how many more."""
    shown = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"rank{'s' if len(names) > 1 else ''} {shown}{more}"


def is_list(value: bytes) -> bool:
    """Whether the value is a list of Gloo's addresses; another Gloo's may be something else."""
    starts = range(0, len(value), SIZE)
    return len(value) % SIZE == 0 and all(
        FAMILY.unpack_from(value, start)[0] in FAMILIES for start in starts
    )


def start_of(owner: int, reader: int) -> int:
    """Return where the reader's entry begins in the owner's list."""
    return SIZE * (reader - (reader > owner))


def column(lists: Mapping[int, bytes], reader: int) -> bytes:
    """Return the reader's entry of each list, and zeros for its own."""
    starts = {owner: start_of(owner, reader) for owner in range(len(lists))}
    entries = (lists.get(owner, b"")[start : start + SIZE] for owner, start in starts.items())
    return b"".join(entry.ljust(SIZE, b"\0") for entry in entries)


def filled(entries: bytes, owner: int, reader: int) -> bytes:
    """Return the owner's list with only the reader's entry in it, from the reader's column."""
    before = start_of(owner, reader)
    entry = entries[SIZE * owner : SIZE * (owner + 1)]
    return bytes(before) + entry + bytes(max(0, len(entries) - 2 * SIZE - before))


class KeyValueStore:
    """The values that ranks store for each other. Each `answer` is called at once or later."""

    def __init__(self) -> None:
        self.lists: dict[str, dict[int, tuple[bytes, Answer]]] = {}
        self.others: dict[str, bytes] = {}
        self.waiting: dict[str, list[Answer]] = {}

    def put_list(self, scope: str, slot: int, value: bytes, answer: Answer) -> None:
        """Answer with the rank's column when all ranks of the scope have left a list.

        Then it is forgotten: a rank may be back there before others have read all.
        """
        left = self.lists.setdefault(scope, {})
        left[slot] = value, answer
        if len(left) > len(value) // SIZE:
            del self.lists[scope]
            lists = {owner: listed for owner, (listed, _) in left.items()}
            for reader, (_, send) in left.items():
                send(zlib.compress(column(lists, reader), level=1))  # to a tenth

    def left_waiting(self, ended: Collection[int], size: int) -> list[int]:
        """Return the ranks that wait for the list of one that has ended.

        A slot has the number of its rank only where all ranks of the job store lists.
        """
        scopes = [left for left in self.lists.values() if not left.keys() >= set(ended)]
        return [
            rank
            for left in scopes
            for rank, (value, _) in left.items()
            if len(value) // SIZE == size - 1
        ]

    def put(self, name: str, value: bytes) -> None:
        self.others[name] = value
        for answer in self.waiting.pop(name, []):
            answer(value)

    def get(self, name: str, answer: Answer) -> None:
        if name in self.others:
            answer(self.others[name])
        else:
            self.waiting.setdefault(name, []).append(answer)

    def drop(self, name: str) -> None:
        self.others.pop(name, None)
