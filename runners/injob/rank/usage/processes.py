"""What a trainer and the processes that it started have used, from proc(5)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = "/proc"
# Of /proc/PID/io: bytes of read(2) and write(2) of whatever kind, and those of storage. Of the
# latter a network file system counts only what its client says so.
IO = ("rchar", "wchar", "read_bytes", "write_bytes")
if TYPE_CHECKING:
    Files = tuple[int, int, int, int]


@dataclass(frozen=True)
class TreeUse:
    """What a tree of processes uses: CPU seconds so far, resident bytes now, and IO so far.

    It includes children that have ended and were waited for. A process that shares pages with its
    parent counts them too.
    """

    cpu: float
    resident: int
    files: Files | None


def of_tree(root: int, proc: str = PROC) -> TreeUse | None:
    """Return what a process and its descendants use; None when it has ended."""
    cpu, resident, files = 0.0, 0, [0, 0, 0, 0]
    known = seen = False
    for pid in tree(root, proc):
        try:
            cpu += cpu_seconds(_read(f"{proc}/{pid}/stat"))
            resident += int(_read(f"{proc}/{pid}/statm").split()[1]) * PAGE
        except (OSError, IndexError):  # it has just ended
            continue
        seen = True
        if each := files_of(pid, proc):
            known, files = True, [a + b for a, b in zip(files, each)]
    if not seen:
        return None
    return TreeUse(cpu, resident, (files[0], files[1], files[2], files[3]) if known else None)


def tree(root: int, proc: str = PROC) -> Iterator[int]:
    """Yield a process and its descendants, whichever of its threads started them."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        try:
            threads = os.listdir(f"{proc}/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                waiting += map(int, _read(f"{proc}/{pid}/task/{thread}/children").split())
            except OSError:  # it has ended; or a kernel without CONFIG_PROC_CHILDREN
                continue


def cpu_seconds(stat: str) -> float:
    """Return the CPU time of a process, and of its children that were waited for."""
    # The name, in parentheses, may have any character. Then state is field 3, utime field 14.
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def files_of(pid: int | str, proc: str = PROC) -> Files | None:
    """Return the IO of a process; None where this may not be read."""
    try:
        lines = _read(f"{proc}/{pid}/io").splitlines()
    except OSError:
        return None
    counts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
    first, second, third, fourth = (counts.get(name, 0) for name in IO)
    return first, second, third, fourth


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
