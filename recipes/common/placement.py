"""On which host, device and CPUs each rank computes."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where one rank computes: `cpus` are those that it may run on."""

    rank: int
    host: str
    device: str
    threads: int
    cpus: tuple[int, ...]


def gather(hvd: Any, device: str) -> list[Place]:
    """Return the place of every rank, by rank. Collective: every rank must call it."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    mine = Place(hvd.rank(), socket.gethostname(), device, threads(hvd.local_size()), cpus)
    found: list[Place] = hvd.allgather_object(mine, name="places")
    return found


def banner(places: Sequence[Place]) -> str:
    """Return a table of all ranks: rank, host, device, threads, CPUs."""
    rows = [("rank", "host", "device", "threads", "CPUs")]
    rows += [(str(p.rank), p.host, p.device, str(p.threads), _ranges(p.cpus)) for p in places]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join(f"{line}  {row[4]}" for line, row in zip(lines, rows))


def _ranges(numbers: Sequence[int]) -> str:
    """Return `0-3,8` for 0, 1, 2, 3 and 8."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def threads(local_size: int) -> int:
    """Count the compute threads this rank may use, from the CPUs it was given.

    `OMP_NUM_THREADS` decides if set. Otherwise the CPUs this process may run on; where nobody
    has bound it to fewer than the machine has, the ranks of this host share them.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    cpus = len(os.sched_getaffinity(0))
    bound = cpus < (os.cpu_count() or cpus)
    return cpus if bound else max(1, cpus // local_size)


def controller(hvd: Any) -> str:
    """Name the controller that Horovod coordinates this run with: "mpi", "gloo"; else "none"."""
    if hvd.mpi_enabled():
        return "mpi"
    return "gloo" if hvd.gloo_enabled() else "none"
