"""TensorBoard, which has no password of its own: started behind a proxy that requires the token."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import signal
import socket
import sys
import types
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ...contract.parts import SERVE
from .. import HERE, records

PORT_FILE = "server-port.json"  # named as Jupyter's, in which it says the same
VARIABLE = "RUNNER_TOKEN_FILE"
SECONDS = 60.0
HALF_REQUESTS = 128  # at a time; the oldest gives way
REFUSED = b"403: open the address that `runner tensorboard` has printed, with its token.\n"


def command(own_folder: str, folder: str, address: str) -> list[str]:
    """Return the command line; `own_folder` is a private one, `folder` has the logs."""
    port_file = os.path.join(own_folder, PORT_FILE)
    return [sys.executable, HERE, SERVE, "board", folder, address, port_file]


class Handler(WSGIRequestHandler):
    """Answers without logging the requests: the first one has the token in it."""

    timeout = SECONDS  # of a client that does not ask, or read, and has a thread of ours

    def get_environ(self) -> dict[str, Any]:
        """Read the head of a request, which is complete now."""
        self.server.half.pop(self.request, None)  # type: ignore[attr-defined]
        return super().get_environ()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class Server(ThreadingMixIn, WSGIServer):
    """Listens at any free port, with a thread for each request.

    `half` are the connections without a complete request: strangers may open any number.
    """

    daemon_threads = True
    request_queue_size = HALF_REQUESTS

    def __init__(self, address: str) -> None:
        self.half: dict[Any, None] = {}
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), Handler)

    def server_bind(self) -> None:
        """Bind without asking the name servers for this host's name, as WSGIServer would."""
        self.socket.bind(self.server_address[:2])
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.half[request] = None
        for oldest in list(self.half)[:-HALF_REQUESTS]:
            self.half.pop(oldest, None)
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.half.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing about a connection that was cut or late: strangers can open any number."""

    def get_url(self) -> str:
        """Return nothing: TensorBoard calls this, and nothing uses it."""
        return ""


def serve_board(logs: str, address: str, port_file: str) -> None:
    """Serve a folder of logs until a signal ends this process."""
    with open(os.environ.pop(VARIABLE), encoding="ascii") as file:
        token = file.read().strip()

    def server(application: Any, flags: Any) -> Server:
        made = Server(address)
        made.set_app(TokenProxy(application, token, made.server_port))
        return made

    # With TensorFlow in the image TensorBoard would import all of it, for seconds.
    name = "tensorboard.compat.notf"
    sys.modules[name] = types.ModuleType(name)
    from tensorboard import default, program

    board = program.TensorBoard(default.get_plugins(), server_class=server)
    # Its fast loader listens at a port of its own, which asks nobody for a token.
    board.configure(logdir=logs, load_fast="false", reload_interval=5.0)
    made = board._make_server()
    records.write_json(port_file, {"port": made.server_port})
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    made.serve_forever()


class TokenProxy:
    """Lets requests with the token through to a WSGI application that has no authentication.

    The token is in the address or in a header; later requests have a cookie instead.
    `port` goes into the cookie's name: at 127.0.0.1, the end of a tunnel, browsers send the cookies
    of all ports to each. The cookie is not the token itself.
    """

    def __init__(self, application: Any, token: str, port: int) -> None:
        self.application, self.token = application, token
        self.name = f"runner-{port}"
        self.cookie = hmac.new(token.encode(), self.name.encode(), hashlib.sha256).hexdigest()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        given = parse_qs(environ.get("QUERY_STRING", "")).get("token", [""])[0]
        if given and _same(given, self.token):
            return self._welcome(environ, start)
        if self._known(environ):
            answer: Iterable[bytes] = self.application(environ, start)
            return answer
        start("403 Forbidden", [("Content-Type", "text/plain"), ("Cache-Control", "no-store")])
        return [REFUSED]

    def _welcome(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Set the cookie, and redirect to the same page without the token in its address."""
        pairs = parse_qsl(environ["QUERY_STRING"], keep_blank_values=True)
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        page = "/" + quote(environ.get("PATH_INFO", "").lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{self.name}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"
        headers = [("Location", page), ("Set-Cookie", cookie), ("Referrer-Policy", "no-referrer")]
        start("302 Found", [*headers, ("Cache-Control", "no-store")])
        return [b""]

    def _known(self, environ: dict[str, Any]) -> bool:
        kind, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() in ("token", "bearer"):
            return _same(given, self.token)
        # Not http.cookies, which takes 20 s for some 64 kB (CVE-2024-7592), that anybody may send.
        parts = environ.get("HTTP_COOKIE", "").split(";")
        cookies = (part.strip().partition("=") for part in parts)
        return any(name == self.name and _same(value, self.cookie) for name, _, value in cookies)


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
