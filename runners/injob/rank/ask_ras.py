"""What NCCL knows of the job's ranks: `python3 RUN/code/injob ras PORT...`, on one of its nodes.

NCCL (2.24 and later) has a thread in each process, RAS, that hears of all the others. It answers
commands of one line each with text, asks nobody who he is, and closes after STATUS (protocol 2,
src/ras/client_support.cc). Prints the first answer of the ports, each a rank's; nothing where there
is none, or another user listens. By the node's own Python (3.8), not the image's.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time

from ..addresses import LOOPBACK
from . import network

HELLO, WELCOME = b"CLIENT PROTOCOL 2\n", b"SERVER PROTOCOL "
# Seconds that NCCL waits at each hop; it gives up 5 s later (RAS_COLLECTIVE_EXTRA_TIMEOUT_SEC).
STATUS = b"TIMEOUT 2\nVERBOSE STATUS\n"
SECONDS = 8.0  # for all ports
SECONDS_TO_GREET = 1.0  # the kernel accepts for a process that is stopped, too
LARGEST = 2**16  # bytes
COMPLETE = "\nErrors\n"  # a title after what the answer for every job has


def main(argv: list[str]) -> None:
    deadline = time.monotonic() + SECONDS
    for port in map(int, argv):
        if network.listeners(port) == {os.geteuid()} and time.monotonic() < deadline:
            answer = _answer(port, deadline).decode("ascii", "ignore")
            if COMPLETE in answer:
                print(re.sub(r"[^\n -~]", "", answer))
                return


def _answer(port: int, deadline: float) -> bytes:
    """Return what has come until the deadline, LARGEST bytes at most."""
    answer, address = b"", (LOOPBACK, port)
    with contextlib.suppress(OSError), socket.create_connection(address, SECONDS_TO_GREET) as rank:
        rank.sendall(HELLO)
        if not rank.recv(64).startswith(WELCOME):
            return b""
        rank.sendall(STATUS)
        while (left := deadline - time.monotonic()) > 0 and len(answer) < LARGEST:
            rank.settimeout(left)
            piece = rank.recv(LARGEST - len(answer))
            if not piece:
                break
            answer += piece
    return answer
