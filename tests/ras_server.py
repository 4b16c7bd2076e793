"""A stand-in for NCCL's RAS: listens and answers as src/ras/client_support.cc (2.30) does."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

# The text of that file's formats, for two ranks of which the last one has not come.
BEHIND = """\
NCCL version 2.30.7 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          1            1          2        2

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         1         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 0 has launched up to operation 42 -- GPU 0 managed by process 7 on node 10.0.0.1
  Rank 1 has launched up to operation 41 -- GPU 0 managed by process 9 on node 10.0.0.2

"""


def listen(address: str) -> socket.socket:
    """Listen at NCCL_RAS_ADDR with the options that NCCL sets."""
    host, _, port = address.rpartition(":")
    server = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        server.setsockopt(socket.SOL_SOCKET, option, 1)
    server.bind((host, int(port)))
    server.listen()
    return server


def replies(commands: Iterator[str], status: str) -> Iterator[str]:
    """What is said to a client's lines; it is left after a status."""
    for line in commands:
        command = line.strip().lower()
        if command in ("status", "verbose status"):
            yield status
            return
        if command.startswith("client protocol "):
            yield "SERVER PROTOCOL 2\n"
        elif command.startswith("timeout "):
            yield "OK\n"
        else:
            yield f"ERROR: Unknown command {command}\n"


def serve(status: str = BEHIND) -> None:
    """Answer in a thread where the environment says, until this process ends."""
    server = listen(os.environ["NCCL_RAS_ADDR"])

    def answer() -> None:
        while True:
            client = server.accept()[0]
            with client, client.makefile() as lines:
                for reply in replies(lines, status):
                    client.sendall(reply.encode())

    threading.Thread(target=answer, daemon=True).start()
