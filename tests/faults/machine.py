"""What strikes: signals to processes wherever they run, and a node without network or power."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import network, nodes, processes

from .place import WORKERS, Place


@dataclass(frozen=True)
class Rank:
    """The two processes of a rank, by this machine's numbers: the shim, and the trainer."""

    rank: int
    node: str
    shim: int
    trainer: int


def text(pid: int, name: str) -> str:
    """A file of a process below /proc, its zero bytes as line ends; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b"\n").decode()
    except OSError:
        return ""


def field(pid: int, name: str) -> str:
    """One line of a process's status; "" when it has ended."""
    lines = (line.partition(":\t") for line in text(pid, "status").splitlines())
    return next((value for key, _, value in lines if key == name), "")


def pids(place: Place, node: str) -> list[int]:
    """All processes of a node."""
    return processes.members("net", [place.network_of(node)])


def named(place: Place, node: str, comm: str) -> list[int]:
    """The processes of a program on a node."""
    return [pid for pid in pids(place, node) if text(pid, "comm").strip() == comm]


def ranks(place: Place) -> dict[int, Rank]:
    """The ranks whose trainer has begun."""
    found = {}
    for node in WORKERS:
        shims = [pid for pid in pids(place, node) if _is_shim(pid)]
        for pid in shims:
            parent = int(field(pid, "PPid") or 0)
            if parent in shims:
                number = _rank_of(pid)
                found[number] = Rank(number, node, parent, pid)
    return found


def _is_shim(pid: int) -> bool:
    """The trainer is a fork of it and has the same command line."""
    return text(pid, "comm").startswith("python") and "/code/injob\nrank\n" in text(pid, "cmdline")


def _rank_of(pid: int) -> int:
    lines = text(pid, "environ").splitlines()
    return next(int(line.partition("=")[2]) for line in lines if line.startswith("SLURM_PROCID="))


def send(number: signal.Signals, targets: Iterable[int]) -> None:
    """Send a signal; a process that has ended meanwhile needs none."""
    for pid in targets:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill(*targets: int) -> None:
    """kill -9."""
    send(signal.SIGKILL, targets)


def power_off(place: Place, node: str) -> None:
    """End a node with all that runs on it, and cut it off: nobody hears that it ended."""
    network.cut(place.state.namespaces, node)
    init = nodes.inits(place.state)[node]
    assert init is not None
    kill(init)


def power_on(place: Place, node: str) -> None:
    """Restart a node."""
    network.restore(place.state.namespaces, node)
    network.forget(place.state.namespaces, node)
    place.boot(node)


def cut_network(place: Place, node: str) -> None:
    """Pull a node's cable."""
    network.cut(place.state.namespaces, node)


def restore_network(place: Place, node: str) -> None:
    """Plug it in again."""
    network.restore(place.state.namespaces, node)
