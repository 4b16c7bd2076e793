"""Where rank 0's hub listens, only until all ranks are in, and how the others learn of it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterable, Sequence

from ... import json_files

NAME = "rendezvous.json"
BACKLOG = 1024


def bind(addresses: Iterable[str]) -> list[socket.socket]:
    """Take a random port on each of these addresses that can be had now. Raises OSError.

    Without SO_REUSEADDR, so that nobody else can bind one, though none is listened on yet.
    """
    socks = []
    for address in addresses:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            sock.bind((address, 0))
            socks.append(sock)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRNOTAVAIL:  # an address of IPv6 may still be tentative
                raise
    return socks


def listen(addresses: Iterable[str]) -> list[socket.socket]:
    """Listen on a random port of each of these addresses. Raises OSError."""
    socks = bind(addresses)
    for sock in socks:
        sock.listen(BACKLOG)
    return socks


def publish(run_dir: str, job: str, socks: Sequence[socket.socket]) -> None:
    """Write where the hub is, for the user's eyes only."""
    places = [list(sock.getsockname()[:2]) for sock in socks]
    json_files.write(os.path.join(run_dir, NAME), {"job": job, "places": places}, 0o600)


def published(run_dir: str, job: str) -> list[tuple[str, int]]:
    """Return addresses and ports that this job's rank 0 has published; none if it has not yet.

    The file is made where there is none: an NFS client would remember for up to a minute that there
    is none (acdirmax), and asks the server anew before it makes a file, and for one that it knows.
    """
    descriptor = os.open(os.path.join(run_dir, NAME), os.O_RDONLY | os.O_CREAT, 0o600)
    found = {}
    with os.fdopen(descriptor, encoding="utf-8") as file, contextlib.suppress(ValueError):
        found = json.load(file)  # empty before rank 0 has written it
    if found.get("job") != job:  # of an earlier attempt with the same folder
        return []
    return [(address, port) for address, port in found["places"]]
