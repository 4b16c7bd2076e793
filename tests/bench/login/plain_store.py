"""The simplest rendezvous: one key-value store on rank 0, to which every rank's Horovod talks.

What the shim's own rendezvous is measured against: a token in the address, no roll call, no word
about who is missing, IPv4 only. One thread; each request has a connection, as Horovod makes them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

from runners.injob import addresses
from runners.injob.rank.rendezvous import store


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
            request = store.read_request(file)
        if request is None or not request[1].startswith(f"/{self.token}/"):
            return
        self.requests += 1
        method, path, body = request
        if method == "PUT":
            self.values[path] = body
            conn.sendall(store.answer(store.OK))
        elif path in self.values:
            conn.sendall(store.answer(store.OK, self.values[path]))
        else:
            conn.sendall(store.answer(store.NOT_FOUND))


def find(folder: Path, seconds: float) -> tuple[str, int, str]:
    """Return host, port and prefix that rank 0 left. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (folder / "store").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no store in {folder}")
        time.sleep(0.01)
    host, port, prefix = (folder / "store").read_text(encoding="utf-8").split(" ")
    return host, int(port), prefix
