"""What a job leaves on the nodes: processes of the user, mounts, files in folders for all."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import nodes, processes
from tests.cluster.state import UID

from . import machine
from .place import HOSTS, Place

# Torch makes this folder when it is imported, for what torch.compile may keep from job to job.
CACHES = ("torchinductor_ada",)
TEMPORARY = ("tmp", "var/tmp", "dev/shm")
SETTLE_SECONDS = 120.0  # Slurm's epilogue, and a node that has to be told that its job has ended


@dataclass(frozen=True)
class Snapshot:
    """Lines such as `n2: mount /x`, of all nodes."""

    lines: frozenset[str]

    def beyond(self, before: Snapshot) -> list[str]:
        """What is here and was not before."""
        return sorted(self.lines - before.lines)


def snapshot(place: Place) -> Snapshot:
    """Look at all nodes that run."""
    found: list[str] = []
    for node, init in nodes.inits(place.state).items():
        if node in HOSTS and init is not None:
            found += [f"{node}: {line}" for line in _of_node(place, node, init)]
    return Snapshot(frozenset(found))


def _of_node(place: Place, node: str, init: int) -> list[str]:
    return [*_processes(place, node), *_mounts(init), *_files(Path(f"/proc/{init}/root"))]


def _processes(place: Place, node: str) -> list[str]:
    """The user's, and Slurm's own for the user's steps."""
    own = [pid for pid in machine.pids(place, node) if _concerns_the_user(pid)]
    return [f"process {pid}: {machine.text(pid, 'cmdline')[:80].strip()}" for pid in own]


def _concerns_the_user(pid: int) -> bool:
    uids = machine.field(pid, "Uid").split()
    return str(UID) in uids or machine.text(pid, "comm").startswith("slurmstepd")


def _mounts(init: int) -> list[str]:
    points = processes.mounts_below(Path("/"), machine.text(init, "mountinfo"))
    return [f"mount {point}" for point in points]


def _files(root: Path) -> list[str]:
    return [
        f"file /{os.path.relpath(os.path.join(folder, name), root)}"
        for top in TEMPORARY
        for folder, folders, files in os.walk(root / top)
        for name in (*folders, *files)
        if name not in CACHES
    ]


def after(
    place: Place, before: Snapshot, seconds: float = SETTLE_SECONDS
) -> tuple[list[str], float]:
    """Wait until nothing is left, `seconds` at most; return what is, and how long that took."""
    began = time.monotonic()
    while (rest := snapshot(place).beyond(before)) and time.monotonic() - began < seconds:
        time.sleep(0.2)
    return rest, time.monotonic() - began
