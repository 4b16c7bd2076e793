"""One rank of a job that only meets: python -m tests.bench.login.meeting KIND FOLDER.

KIND is mpi (the nodes' own Open MPI over PMIx, without Horovod or Python packages) or gloo (what
Horovod's Gloo does with our rendezvous).
Prints one line of JSON: `began` and `ended` in seconds of one clock (the nodes are one machine);
rank 0 also says what its server received.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import struct
import sys
import time
from typing import Any

from runners.injob import task
from runners.injob.rank.rendezvous.hub_state import SIZE
from runners.injob.rank.rendezvous.session import RendezvousSession, meet
from runners.injob.task import Task

PATIENCE = 120.0  # seconds
LAST_WORDS = 0.5  # seconds for the hub to let everybody go


def mpi() -> dict[str, Any]:
    """Start and end the nodes' MPI."""
    library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    began = time.time()
    library.MPI_Init(None, None)
    ended = time.time()
    library.MPI_Finalize()
    return {"began": began, "ended": ended}


def gloo(me: Task, folder: str) -> dict[str, Any]:
    """Do what a task's parent and its Horovod do; the parent's numbers count as the rank's."""
    session = RendezvousSession(me, folder, PATIENCE)
    child_times, parent_times = os.pipe()
    child = os.fork()
    if child == 0:
        session.leave(may_rename=True)
        os.write(parent_times, json.dumps(client(me, session)).encode())
        os._exit(0)
    session.serve()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(os.read(child_times, 4096))
    if session.hub is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        found["frames"] = session.hub.received
        found["cpu"] = used.ru_utime + used.ru_stime
    return found


def client(me: Task, session: RendezvousSession) -> dict[str, Any]:
    """Make Horovod's requests."""
    began = time.time()
    store = session.proxy.port, session.proxy.prefix
    session.variables(session.master_address())
    meet(*store)
    url = Url("127.0.0.1", *store)
    url.worlds(me)
    ended = time.time()
    meet(*store)  # nobody leaves before all have read everything, as Gloo's barriers see to
    time.sleep(LAST_WORDS)
    return {"began": began, "ended": ended, "requests": url.requests}


class Url:
    """Horovod's client for one server (0.28.1, http_store.cc and gloo/rendezvous/context.cc)."""

    def __init__(self, host: str, port: int, prefix: str) -> None:
        self.host, self.port, self.prefix = host, port, prefix
        self.requests = 0

    def worlds(self, me: Task) -> None:
        """Ask for the three scopes of Horovod's world and the three of process set 0."""
        for suffix in ("", "_process_set_hash_1"):
            self.scope(f"global{suffix}", me.rank, me.size)
            self.scope(f"local_{me.host}{suffix}", me.local_rank, me.local_size)
            self.scope(f"cross_{me.local_rank}{suffix}", me.cross_rank, me.cross_size)

    def scope(self, name: str, rank: int, size: int) -> None:
        """Make one Gloo context, less its sockets to the other ranks."""
        self.ask("PUT", f"{name}/rank_{rank}", b"host")
        for lower in range(rank):
            self.ask("GET", f"{name}/rank_{lower}")
        self.ask("PUT", f"{name}/{rank}", (size - 1) * self._address())
        for peer in range(size):
            if peer != rank:
                while (status := self.ask("GET", f"{name}/{peer}")) != 200:
                    if status != 404:
                        raise RuntimeError(f"status {status}")
                    time.sleep(0.01)
                self.ask("GET", f"{name}/{peer}")

    def _address(self) -> bytes:
        return struct.pack("=H", socket.AF_INET).ljust(SIZE, b"\0")

    def ask(self, method: str, key: str, body: bytes = b"") -> int:
        """Make a request with a connection of its own; return the status."""
        self.requests += 1
        head = f"{method} {self.prefix}{key} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((self.host, self.port)) as sock:
            sock.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))
        return int(answer.split(b" ", 2)[1])


def main() -> None:
    """Command line."""
    me = task.read("srun", os.environ)
    kind, folder = sys.argv[1:]
    found = mpi() if kind == "mpi" else gloo(me, folder)
    # In one call: lines of several ranks must not mix.
    sys.stdout.write(json.dumps({"rank": me.rank, **found}) + "\n")


if __name__ == "__main__":
    main()
