"""Where rank 0's hub listens, only until all ranks are in, and where the others look for it."""

from __future__ import annotations

import errno
import json
import os
import socket
import zlib
from collections.abc import Sequence

from ... import failure_kinds as kinds
from ... import json_files
from ...addresses import LOOPBACK, resolve
from ..problem import RendezvousError

PORTS_TRIED = 8
NAME = "rendezvous.json"
BACKLOG = 1024


def candidate_ports(job: str) -> range:
    """Ports that every rank derives from the job's name, below the kernel's ephemeral range."""
    first = 20000 + zlib.crc32(job.encode()) % 1500 * PORTS_TRIED
    return range(first, first + PORTS_TRIED)


def bind(addresses: Sequence[str], job: str) -> list[socket.socket]:
    """Listen on all these addresses, at the first candidate port that is free on each.

    Raises RendezvousError with the last reason when there is none.
    """
    reason: OSError | None = None
    for port in candidate_ports(job):
        socks: list[socket.socket] = []
        try:
            for address in addresses:
                socks.append(_listen(address, port))
            return socks
        except OSError as error:
            reason = error
            for sock in socks:
                sock.close()
    ports = candidate_ports(job)
    raise RendezvousError(
        kinds.NO_PORT,
        f"no free port for the rendezvous on {' and '.join(addresses)}, "
        f"tried {ports[0]} to {ports[-1]}: {reason}",
    )


def add(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Listen on further addresses, as far as their port is free."""
    socks = []
    for address in addresses:
        try:
            socks.append(_listen(address, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
    return socks


def _listen(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def publish(run_dir: str, job: str, addresses: Sequence[str], port: int) -> None:
    """Write where the hub is, for ranks whose name of rank 0's node leads elsewhere."""
    value = {"job": job, "addresses": list(addresses), "port": port}
    json_files.write(os.path.join(run_dir, NAME), value)


def published(run_dir: str, job: str) -> list[tuple[str, int]]:
    """Return addresses and ports that this job's rank 0 published; none when it has not yet."""
    try:
        with open(os.path.join(run_dir, NAME), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return []
    if found["job"] != job:  # of an earlier attempt with the same folder
        return []
    return [(address, found["port"]) for address in found["addresses"]]


def endpoints(first_host: str, one_host: bool, job: str, run_dir: str) -> list[tuple[str, int]]:
    """Return where the hub may be: what rank 0 published, and what its node's name leads to."""
    if one_host:
        return [(LOOPBACK, port) for port in candidate_ports(job)]
    named = resolve(first_host) if first_host else []
    guesses = [(address, port) for address in named for port in candidate_ports(job)]
    return list(dict.fromkeys(published(run_dir, job) + guesses))
