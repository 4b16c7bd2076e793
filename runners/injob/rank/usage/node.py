"""What all ranks of a node share: the limit of their memory, and its network interfaces."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

CGROUPS, PROC, INFINIBAND = "/sys/fs/cgroup", "/proc", "/sys/class/infiniband"
CGROUP, SLURM, NODE = "cgroup", "slurm", "node"  # whose limit it is
NO_LIMIT = 1 << 60  # version 1 writes a number near 2**63
WORD = 4  # port_rcv_data and port_xmit_data count words of this size
if TYPE_CHECKING:
    Traffic = dict[str, tuple[int, int]]  # bytes received and sent, by interface


@dataclass(frozen=True)
class MemoryGroup:
    """The cgroup whose limit binds first, and what it uses without the page cache it could drop."""

    limit: int
    used: int


def memory_group(proc: str = PROC, root: str = CGROUPS) -> MemoryGroup | None:
    """Return the job's cgroup with the lowest limit; None where there is none or it is not shown.

    Version 2 has one hierarchy, version 1 one for memory.
    """
    for line in _read(f"{proc}/self/cgroup").splitlines():
        number, names, path = line.split(":", 2)
        if number == "0" and not names:
            found = _lowest(root, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in names.split(","):
            words = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            found = _lowest(f"{root}/memory", path, words)
        else:
            continue
        if found:
            return found
    return None


def _lowest(root: str, path: str, names: tuple[str, str, str]) -> MemoryGroup | None:
    """Return the group with the lowest limit of this one and those above it."""
    limit_name, used_name, dropped_name = names
    found: MemoryGroup | None = None
    folder = os.path.normpath(root + path)
    while folder.startswith(root):
        limit = _read(f"{folder}/{limit_name}").strip()
        used = _read(f"{folder}/{used_name}").strip()
        if limit.isdigit() and used.isdigit() and int(limit) < (found.limit if found else NO_LIMIT):
            dropped = _fields(_read(f"{folder}/memory.stat")).get(dropped_name, 0)
            found = MemoryGroup(int(limit), max(0, int(used) - dropped))
        folder = os.path.dirname(folder)
    return found


def memory_limit(
    group: MemoryGroup | None, env: Mapping[str, str], proc: str = PROC
) -> tuple[int, str] | None:
    """Return how much memory the job may use on this node, and who says so."""
    if group is not None:
        return group.limit, CGROUP
    asked = env.get("SLURM_MEM_PER_NODE", "")
    if asked.isdigit() and int(asked):
        return int(asked) << 20, SLURM
    for line in _read(f"{proc}/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10, NODE
    return None


def traffic(proc: str = PROC, infiniband: str = INFINIBAND) -> Traffic | None:
    """Return what came and went by each interface so far, also of other jobs; not the loopback.

    What bypasses the kernel, as MPI and NCCL do over InfiniBand, only the adapter counts.
    """
    text = _read(f"{proc}/net/dev")
    found: Traffic = {}
    for line in text.splitlines():
        name, colon, counts = line.partition(":")
        fields = counts.split()
        if colon and len(fields) >= 9 and name.strip() != "lo":
            found[name.strip()] = int(fields[0]), int(fields[8])
    for port in glob.glob(f"{infiniband}/*/ports/*/counters"):
        device, _, number = port.split("/")[-4:-1]
        received, sent = (_read(f"{port}/port_{way}_data").strip() for way in ("rcv", "xmit"))
        if received.isdigit() and sent.isdigit():
            found[f"{device}:{number}"] = int(received) * WORD, int(sent) * WORD
    return found if text or found else None


def _fields(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _read(path: str) -> str:
    """Return a file's text; "" where it is not to be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
