"""Measure what a Gloo rendezvous costs rank 0: python -m tests.bench.hub [--ranks N ...]

Simulated ranks say to a real hub what a rank's proxy says, and hear all that it answers: nothing is
left out on rank 0, and nothing is computed on the others. One of them is real: a proxy, and a
client that asks it what Horovod asks. Prints a line of JSON for each number of ranks, the medians
of `--rounds`. CPU seconds and bytes hardly depend on what else the machine does; `seconds` do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from runners.contract.failure_kinds import FailureKind
from runners.injob.problems import Problem
from runners.injob.rank import network, rank_environment
from runners.injob.rank.rendezvous import protocol
from runners.injob.rank.rendezvous.hub import Hub
from runners.injob.rank.rendezvous.hub_state import SIZE
from runners.injob.rank.rendezvous.protocol import Frame, Opening
from runners.injob.rank.rendezvous.proxy import Proxy

from .login.meeting import Url

SECRET, JOB = b"s" * 32, "bench"
SCOPES = ("global", "global_process_set_hash_1")  # the two that grow with the square
PATIENCE = 600.0  # seconds


def addresses(rank: int, size: int) -> bytes:
    """Return the list of a rank, as Gloo makes it: a port and a number for each other rank."""
    host = bytes((10, 77, *divmod(rank, 256)))
    ports = range(32768 + rank, 32768 + rank + size - 1)
    places = (struct.pack("=HH4s", socket.AF_INET, port, host) for port in ports)
    return b"".join(
        place.ljust(128, b"\0") + (rank * size + number).to_bytes(SIZE - 128, "little")
        for number, place in enumerate(places)
    )


def serve(sock: socket.socket, size: int) -> dict[str, float]:
    """Be rank 0's parent until all ranks have gone; return what that took."""
    task = SimpleNamespace(size=size, hosts=(), one_host=True)
    endpoint: Any = SimpleNamespace(
        task=task, listening=[sock], later_listening=[], secret=SECRET, job=JOB, own={"127.0.0.1"},
        seconds=PATIENCE, trainer_port=network.hold_port(), say=print, deliver=print,
    )  # fmt: skip
    hub = Hub(endpoint)
    hub.start()
    while len(hub.table.members) < size or not all(
        member.ended for member in hub.table.members.values()
    ):
        time.sleep(0.05)
    return {**used("hub"), "frames": float(hub.received)}


def used(who: str) -> dict[str, float]:
    """Return the CPU seconds and the largest memory of this process."""
    found = resource.getrusage(resource.RUSAGE_SELF)
    return {f"{who}_cpu": found.ru_utime + found.ru_stime, f"{who}_mb": found.ru_maxrss / 1024}


def real(port: int, size: int) -> dict[str, float]:
    """Be the last rank: its proxy, and its Horovod as a client. All of this is on its own host."""
    who = {"rank": size - 1, "size": size, "host": "n1", "local_rank": 0}
    gloo, place, nobody = {"interface": "", "address": ""}, ("127.0.0.1", port), "no hub"
    proxy = Proxy()
    endpoint: Any = SimpleNamespace(
        places=lambda: [place], secret=SECRET, job=JOB, who=who, gloo=lambda _: gloo,
        nobody=lambda _: Problem(FailureKind.RENDEZVOUS, nobody), seconds=PATIENCE, deliver=print,
    )  # fmt: skip
    proxy.start(endpoint)
    url = Url("127.0.0.1", proxy.port, proxy.prefix)
    url.ask("GET", "runner/meet")
    for scope in SCOPES:
        url.scope(scope, size - 1, size)
        url.ask("DELETE", f"{scope}/x")
    return {**used("rank"), "requests": float(url.requests)}


class Rank:
    """A simulated rank: it counts the bytes that it hears, and looks at no more of them."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    async def run(self, port: int) -> int:
        """Meet, exchange both lists, leave; return how many bytes came."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        await self._open()
        who = {"rank": self.rank, "size": self.size, "host": "n1", "local_rank": 0, "address": ""}
        meet = Frame(f"GET {protocol.MEET}")
        self._send(Frame(protocol.HELLO, json.dumps(who).encode()), meet)
        heard = await self._frame()
        for scope in SCOPES:
            self._send(
                Frame(f"{protocol.LIST} {scope}/{self.rank}", addresses(self.rank, self.size))
            )
            heard += await self._frame()
        self.writer.close()
        return heard

    async def _open(self) -> None:
        opening = Opening(SECRET, JOB, self.writer.get_extra_info("peername")[:2])
        self.writer.write(opening.hello())
        last = opening.last(await self.reader.readexactly(protocol.OPENING))
        assert last
        self.writer.write(last)

    def _send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(frame.pack() for frame in frames))

    async def _frame(self) -> int:
        head = await self.reader.readexactly(protocol.HEAD.size)
        return len(head) + len(await self.reader.readexactly(sum(protocol.HEAD.unpack(head))))


async def simulated(port: int, size: int) -> int:
    """Be all ranks but the last; return the bytes that they heard."""
    return sum(await asyncio.gather(*(Rank(rank, size).run(port) for rank in range(size - 1))))


def measure(size: int) -> dict[str, float]:
    """Let so many ranks meet once."""
    rank_environment.allow_files(size)
    sock = socket.create_server(("127.0.0.1", 0), backlog=size)
    port = sock.getsockname()[1]
    began = time.monotonic()
    pipes = [apart(partial(serve, sock, size)), apart(partial(real, port, size))]
    sock.close()
    heard = asyncio.run(simulated(port, size))
    found: dict[str, float] = {"sent_mb": heard / 1e6}
    for pipe in pipes:
        found.update(answered(pipe))
    return {**found, "seconds": time.monotonic() - began}


def apart(work: Callable[[], dict[str, float]]) -> int:
    """Do it in a process of its own; return a pipe with what it returns."""
    answer, child_answer = os.pipe()
    if os.fork() == 0:
        os.write(child_answer, json.dumps(work()).encode())
        os._exit(0)
    os.close(child_answer)
    return answer


def answered(pipe: int) -> dict[str, float]:
    """Wait for what the process at the other end returns."""
    with os.fdopen(pipe) as file:
        found: dict[str, float] = json.load(file)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for size in options.ranks:
        # Each in a process of its own: a child's largest memory begins with its parent's.
        rounds = [answered(apart(partial(measure, size))) for _ in range(options.rounds)]
        medians = {
            name: statistics.median(measured[name] for measured in rounds) for name in rounds[0]
        }
        print(json.dumps({"ranks": size, **{n: round(v, 2) for n, v in medians.items()}}))


if __name__ == "__main__":
    main()
