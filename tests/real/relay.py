"""Passes TCP on to another port of this machine, but only so many bytes of each answer.

    python3 relay.py TARGET_PORT BYTES FOLDER

Writes the port that it listens on to FOLDER/port. After BYTES of a connection the answer comes to a
standstill, or is cut if the file FOLDER/cut exists. Runs on the cluster's login node.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path


def forward(source: socket.socket, target: socket.socket, limit: float, cut: Path) -> None:
    """Pass on what comes, up to the limit."""
    passed = 0
    while data := source.recv(65536):
        if passed + len(data) > limit:
            while not cut.exists():
                time.sleep(0.05)
            break
        target.sendall(data)
        passed += len(data)
    target.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, port: int, limit: float, cut: Path) -> None:
    """Accept connections for ever."""
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        for ends in ((client, server, float("inf"), cut), (server, client, limit, cut)):
            threading.Thread(target=forward, args=ends, daemon=True).start()


if __name__ == "__main__":
    folder = Path(sys.argv[3])
    listening = socket.create_server(("127.0.0.1", 0))
    (folder / "port.part").write_text(str(listening.getsockname()[1]))
    (folder / "port.part").rename(folder / "port")
    serve(listening, int(sys.argv[1]), float(sys.argv[2]), folder / "cut")
