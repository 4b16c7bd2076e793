"""Passes TCP on to another port of this machine; stops passing after so many bytes, if told to.

    python3 relay.py TARGET_PORT BYTES FOLDER

Writes the port that it listens on to FOLDER/port. The answers of the target come to a standstill
after BYTES, of each connection, until the file FOLDER/go exists. Runs on the cluster's login node.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path


def forward(source: socket.socket, target: socket.socket, limit: float, go: Path) -> None:
    """Pass on what comes, up to the limit."""
    passed = 0
    while data := source.recv(65536):
        while passed + len(data) > limit and not go.exists():
            time.sleep(0.05)
        target.sendall(data)
        passed += len(data)
    target.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, port: int, limit: float, go: Path) -> None:
    """Accept connections for ever."""
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        for ends in ((client, server, float("inf"), go), (server, client, limit, go)):
            threading.Thread(target=forward, args=ends, daemon=True).start()


if __name__ == "__main__":
    folder = Path(sys.argv[3])
    listening = socket.create_server(("127.0.0.1", 0))
    (folder / "port.part").write_text(str(listening.getsockname()[1]))
    (folder / "port.part").rename(folder / "port")
    serve(listening, int(sys.argv[1]), float(sys.argv[2]), folder / "go")
