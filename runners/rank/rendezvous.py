"""The meeting point of Horovod's Gloo controller: a key-value store over HTTP, kept by rank 0.

Horovod's client (0.28.1, `http_store.cc`) does GET, PUT and DELETE on `/scope/key`, takes 404
as "not yet", and aborts the process after three failures 0.5 s apart. So the server listens
before any rank can ask, and the other ranks look for it before they call into Horovod.
"""

from __future__ import annotations

import socket
import threading
import time
import zlib

PORTS_TRIED = 8
HELLO = "/runner/job"


class RendezvousError(Exception):
    """No port is free, or the server of rank 0 did not answer."""


def candidate_ports(job: str) -> range:
    """Ports that every rank derives from the job's name, below the kernel's ephemeral range."""
    first = 20000 + zlib.crc32(job.encode()) % 1500 * PORTS_TRIED
    return range(first, first + PORTS_TRIED)


def listen(address: str, job: str) -> socket.socket:
    """Bind the first free candidate port on `address`.

    Raises RendezvousError with the last reason when all are taken.
    """
    error: OSError | None = None
    for port in candidate_ports(job):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            sock.listen(1024)
            return sock
        except OSError as reason:
            sock.close()
            error = reason
    ports = candidate_ports(job)
    raise RendezvousError(
        f"no free port for the Gloo rendezvous on {address or 'any address'}, "
        f"tried {ports[0]} to {ports[-1]}: {error}"
    )


def serve(sock: socket.socket, job: str) -> None:
    """Answer on `sock` in a daemon thread until this process ends."""
    # Imported here because it costs about 30 ms, which only rank 0's supervisor has to pay,
    # while its trainer is already importing.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    store: dict[str, bytes] = {HELLO: job.encode()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            value = store.get(self.path)
            self.answer(200 if value is not None else 404, value or b"")

        def do_PUT(self) -> None:
            store[self.path] = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(200)

        def do_DELETE(self) -> None:
            self.answer(200)

        def answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the hundreds of requests at start out of the job's log."""

    server = ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = sock
    threading.Thread(target=server.serve_forever, daemon=True).start()


def find(host: str, job: str, seconds: float) -> tuple[str, int]:
    """Return address and port of the server of this job on `host`, waiting up to `seconds`.

    Raises RendezvousError when nobody answers with this job's name in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        for port in candidate_ports(job):
            address = _ask(host, port, job)
            if address:
                return address, port
        if time.monotonic() > deadline:
            ports = candidate_ports(job)
            raise RendezvousError(
                f"rank 0's rendezvous on {host}, ports {ports[0]} to {ports[-1]}, "
                f"did not answer in {seconds:.0f} s"
            )
        time.sleep(0.1)


def _ask(host: str, port: int, job: str) -> str | None:
    """Return the server's address when it is this job's, None when it is not or does not answer."""
    try:
        with socket.create_connection((host, port), timeout=2) as sock:
            sock.sendall(f"GET {HELLO} HTTP/1.0\r\n\r\n".encode())
            answer = b"".join(iter(lambda: sock.recv(4096), b""))
            address = str(sock.getpeername()[0])
    except OSError:
        return None  # not up yet, or another port: the caller tries on until its deadline
    return address if answer.endswith(b"\r\n\r\n" + job.encode()) else None
