"""The roll call: which ranks have started, which wait in hvd.init(), which are missing and where.

Pure bookkeeping; the hub tells it what it hears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NAMED = 8  # ranks that a message names; the rest is counted


@dataclass
class Member:
    """A rank that has started. `address` is what Gloo will publish for it, empty when unknown."""

    host: str
    local_rank: int
    interface: str = ""
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
        """Whether every rank has come at least once."""
        return len(self.members) == self.size

    @property
    def complete(self) -> bool:
        """Whether every rank waits in hvd.init()."""
        return self.started and all(one.waits and not one.ended for one in self.members.values())

    def dismiss(self) -> None:
        """Let all ranks go: they may meet again after hvd.shutdown()."""
        for member in self.members.values():
            member.waits = False

    def ended(self) -> str:
        """Name the ranks that will never come because they ended; empty when there are none."""
        gone = [f"{rank}@{one.host}" for rank, one in sorted(self.members.items()) if one.ended]
        return f"{_listed(gone)} ended before all had met" if gone else ""

    def silent(self) -> str:
        """Say which ranks have not started, and where they should be; empty when all have."""
        ranks = [rank for rank in range(self.size) if rank not in self.members]
        return f"{_listed(self._expected(ranks))} {_have(ranks)} not started" if ranks else ""

    def missing(self) -> str:
        """Say which ranks are not in hvd.init(), and where they are or should be."""
        busy = [
            f"{rank}@{one.host}"
            for rank, one in sorted(self.members.items())
            if not one.waits and not one.ended
        ]
        late = f"{_listed(busy)} {_have(busy)} started, but not called hvd.init()" if busy else ""
        return "; ".join(filter(None, [self.silent(), late, self.ended()]))

    def absent(self) -> dict[str, list[tuple[int, str]]]:
        """Return who is not in hvd.init(): each rank with its host, "" where it is not known."""
        came = sorted(self.members.items())
        silent = [rank for rank in range(self.size) if rank not in self.members]
        return {
            "ended": [(rank, one.host) for rank, one in came if one.ended],
            "late": [(rank, one.host) for rank, one in came if not one.waits and not one.ended],
            "silent": [(rank, self.hosts[rank] if self.hosts else "") for rank in silent],
            "unreached": [],
        }

    def _expected(self, ranks: Sequence[int]) -> list[str]:
        """Name ranks with the node on which they should be, as far as that is known."""
        if self.hosts:
            return [f"{rank} (on {self.hosts[rank]})" for rank in ranks]
        return [str(rank) for rank in ranks]

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
            rank: _place(columns, node, local)
            for node, column in enumerate(columns)
            for local, rank in enumerate(column)
        }

    def _by_local_rank(self, ranks: list[int]) -> list[int]:
        ordered = sorted(ranks, key=lambda rank: self.members[rank].local_rank)
        numbers = [self.members[rank].local_rank for rank in ordered]
        return ordered if numbers == list(range(len(ranks))) else ranks


def _place(columns: Sequence[Sequence[int]], node: int, local: int) -> dict[str, int]:
    return {
        "local_rank": local,
        "local_size": len(columns[node]),
        "cross_rank": sum(len(column) > local for column in columns[:node]),
        "cross_size": sum(len(column) > local for column in columns),
    }


def _listed(names: Sequence[str]) -> str:
    """`rank 3 (on n2)` or `ranks 3 (on n2), 5 (on n3)`, and how many more."""
    shown = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"rank{'s' if len(names) > 1 else ''} {shown}{more}"


def _have(names: Sequence[object]) -> str:
    return "have" if len(names) > 1 else "has"
