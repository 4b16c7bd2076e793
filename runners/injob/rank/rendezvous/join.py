"""What a trainer's process, or its shim, asks the store of the rank, over loopback."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from ... import failure_kinds as kinds
from ..failure import RendezvousError

MEETING, PLACE = "runner/meet", "runner/place"
TELL, LAST, VERDICT = "runner/tell", "runner/last", "runner/verdict"
SECONDS_TO_TELL = 10.0
CLUSTER = "runner-cluster"  # a scope of the exchange: where each rank's server is


def join(port: int, prefix: str) -> dict[str, str]:
    """Wait until all ranks are here; return Horovod's variables for this one's place.

    Raises RendezvousError that names the missing ranks.
    """
    place = _answered(port, prefix, MEETING)["go"]["place"]
    return {f"HOROVOD_{name.upper()}": str(value) for name, value in place.items()}


def where(port: int, prefix: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return address and port for rank 0's server, None if nobody knows, and what Gloo goes by.

    Raises RendezvousError when no way leads to rank 0.
    """
    found = _answered(port, prefix, PLACE)
    return found["master"], found["gloo"]


def everyone(port: int, prefix: str, mine: str, rank: int, size: int, seconds: float) -> list[str]:
    """Give the others a text, and return all ranks'. Raises RendezvousError."""
    join(port, prefix)
    deadline = time.monotonic() + seconds
    _request(port, "PUT", f"{prefix}{CLUSTER}/{rank}", mine.encode())
    found = []
    for other in range(size):
        while not (text := _request(port, "GET", f"{prefix}{CLUSTER}/{other}")):
            if time.monotonic() > deadline:
                raise RendezvousError(kinds.RENDEZVOUS, f"rank {other} does not say where it is")
        found.append(text.decode())
    return found


def tell(port: int, prefix: str, what: str, text: str) -> None:
    """Send rank 0 a text (TELL), the LAST one, or its VERDICT to all. Raises OSError.

    The last one returns when the text has arrived.
    """
    _request(port, "PUT", prefix + what, text.encode(), SECONDS_TO_TELL)


def _answered(port: int, prefix: str, what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_request(port, "GET", prefix + what))
    if problem := found["problem"]:
        raise RendezvousError(problem["kind"], problem["text"], **problem["fields"])
    return found


def _request(
    port: int, method: str, path: str, body: bytes = b"", seconds: float | None = None
) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), seconds) as sock:
        sock.sendall(head.encode() + body)
        data = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    return data.partition(b"\r\n\r\n")[2]
