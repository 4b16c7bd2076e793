"""The simplest rendezvous: one key-value store on rank 0, to which every rank's Horovod talks.

What the shim's own rendezvous is measured against: a token in the address, no roll call, no word
about who is missing, IPv4 only. One thread; each request has a connection, as Horovod makes them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from io import BufferedIOBase
from pathlib import Path

from runners.injob import addresses

OK, NOT_FOUND = "200 OK", "404 Not Found"


def read_request(file: BufferedIOBase) -> tuple[str, str, bytes] | None:
    """Return method, path and body of a request; None when it is none."""
    words, length = file.readline().decode("latin-1").split(" "), 0
    while line := file.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return (words[0], words[1], file.read(length)) if len(words) == 3 else None


def answer(status: str, body: bytes = b"") -> bytes:
    """Return an answer of HTTP."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class PlainStore:
    """Values by path. `requests` counts what was asked."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.requests = 0
        self.token = os.urandom(16).hex()
        self.sock = socket.create_server(("0.0.0.0", 0), backlog=1024)

    def publish(self, folder: Path, to: str) -> None:
        """Leave the address for the other ranks, by rename; `to` is one of their hosts."""
        port = self.sock.getsockname()[1]
        part = folder / "store.part"
        part.write_text(f"{addresses.towards(to)} {port} /{self.token}/", encoding="utf-8")
        part.replace(folder / "store")

    def start(self) -> None:
        """Serve in a daemon thread."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            conn, _ = self.sock.accept()
            with conn:
                self._answer(conn)

    def _answer(self, conn: socket.socket) -> None:
        with conn.makefile("rb") as file:
            request = read_request(file)
        if request is None or not request[1].startswith(f"/{self.token}/"):
            return
        self.requests += 1
        method, path, body = request
        if method == "PUT":
            self.values[path] = body
            conn.sendall(answer(OK))
        elif path in self.values:
            conn.sendall(answer(OK, self.values[path]))
        else:
            conn.sendall(answer(NOT_FOUND))


def find(folder: Path, seconds: float) -> tuple[str, int, str]:
    """Return host, port and prefix that rank 0 left. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (folder / "store").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no store in {folder}")
        time.sleep(0.01)
    host, port, prefix = (folder / "store").read_text(encoding="utf-8").split(" ")
    return host, int(port), prefix
