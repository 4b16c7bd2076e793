"""A port held for a server of the trainer's, and whether another user listens on it.

It is bound and never listened on: with SO_REUSEADDR, which PyTorch's store and gRPC set too, their
server may bind it as well (socket(7)), and the kernel gives it to nobody else by itself. But
another user's socket may bind it too, and the first that listens has it. Once the trainer's server
listens, nobody else can. Until then the shim looks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket

from .. import failure_kinds as kinds
from .failure import Problem
from .reports import Inbox

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
TRIES = 16
SECONDS_BETWEEN_LOOKS = 1.0


def hold() -> socket.socket:
    """Hold a random port until this process ends."""
    for _ in range(TRIES):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", 0))
        if taken(sock) is None:
            break
    return sock


def taken(held: socket.socket) -> Problem | None:
    """Return the problem of a held port on which another user listens."""
    port = int(held.getsockname()[1])
    if _listeners(port) <= {os.geteuid()}:
        return None
    text = (
        f"another user of the node listens on port {port}, which runner held for this job "
        "(MASTER_PORT, TF_CONFIG): ranks that connect would reach a foreign process"
    )
    return Problem(kinds.PORT_TAKEN, text, {"port": port})


def _listeners(port: int) -> set[int]:
    """Return the users who listen on this port, be it on one address.

    As this process's user namespace calls them: a user whom it does not know is 65534.
    """
    uids = set()
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as lines:
            next(lines, None)
            for line in lines:
                fields = line.split()
                if fields[3] != LISTENING:
                    break  # those come first
                if int(fields[1].rpartition(":")[2], 16) == port:
                    uids.add(int(fields[7]))
    return uids


class Watch:
    """Ends the process `child` where another user listens on a held port; then `problem` says so.

    Until a world is formed: then the trainer's own server listens, or none will.
    """

    def __init__(self, child: int, held: socket.socket | None, inbox: Inbox) -> None:
        self.child, self.held, self.inbox = child, held, inbox
        self.problem: Problem | None = None

    @property
    def needed(self) -> bool:
        return self.held is not None and self.problem is None and not self.inbox.formed

    def look(self) -> None:
        """Look; the child must not have been waited for."""
        if self._looked():
            os.kill(self.child, signal.SIGKILL)

    def problem_of(self, code: int) -> Problem | None:
        """Return why the child has ended, if it is this: its server may have found the port taken.

        Its exit code is `code`.
        """
        return self.problem or (self._looked() if code else None)

    def _looked(self) -> Problem | None:
        """Look whether the port is taken now, if that was not known and matters."""
        if self.held is None or not self.needed:
            return None
        self.problem = taken(self.held)
        return self.problem
