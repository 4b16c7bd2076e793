"""As much of HTTP as Horovod's client speaks: one request and one answer for each connection.

By hand, because the import of http.server takes 30 ms, and each rank would pay them.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

REQUEST_SECONDS = 5.0
LONGEST_HEAD = 1 << 14
LONGEST_BODY = 1 << 26
OK, NOT_FOUND, FAILED = "200 OK", "404 Not Found", "500 Internal Server Error"


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    method: str
    path: str
    body: bytes


def read(conn: socket.socket) -> Request | None:
    """Read a request; None when it is none. Raises OSError."""
    conn.settimeout(REQUEST_SECONDS)
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = conn.recv(1 << 16)
        if not chunk or len(data) > LONGEST_HEAD:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *headers = head.decode("latin-1").split("\r\n")
    words, length = first.split(" "), _length(headers)
    if len(words) != 3 or length is None:
        return None
    while len(body) < length:
        chunk = conn.recv(1 << 16)
        if not chunk:
            return None
        body += chunk
    return Request(words[0], words[1], body)


def _length(headers: list[str]) -> int | None:
    """Return the length of the body; None when the header is not a fit number."""
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            text = value.strip()
            return int(text) if text.isdigit() and int(text) <= LONGEST_BODY else None
    return 0


def answer(conn: socket.socket, status: str, body: bytes = b"") -> None:
    """Send an answer. Raises OSError."""
    conn.settimeout(REQUEST_SECONDS)
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    conn.sendall(head.encode() + body)


def get(port: int, path: str) -> bytes:
    """Ask a server on this host for a path, however long it takes; return the body."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        data = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    return data.partition(b"\r\n\r\n")[2]
