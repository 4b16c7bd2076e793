"""TensorBoard behind the door."""

from __future__ import annotations

import os
import signal
import socket
import sys
import types
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from .token_auth import Door


class Handler(WSGIRequestHandler):
    """Answers without writing down what was asked: the first question has the token in it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class Server(ThreadingMixIn, WSGIServer):
    """One thread for each question; over IPv6 where the address is of that kind."""

    daemon_threads = True

    def __init__(self, address: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking the name servers who we are, as WSGIServer would."""
        self.socket.bind(self.server_address[:2])
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def get_url(self) -> str:
        """Return nothing: TensorBoard asks, and nobody needs it."""
        return ""


def listen(address: str, port: int) -> Server:
    """Return a server at this port, or at any other where somebody has it."""
    try:
        return Server(address, port)
    except OSError:
        return Server(address, 0)


def main(logs: str, address: str, port: str, port_file: str) -> None:
    """Serve a folder of logs until a signal ends this process."""
    with open(os.environ.pop("RUNNER_TOKEN_FILE"), encoding="ascii") as file:
        token = file.read().strip()

    def server(application: Any, flags: Any) -> Server:
        made = listen(address, int(port))
        made.set_app(Door(application, token, made.server_port))
        return made

    # With TensorFlow in the image TensorBoard would import all of it, for seconds.
    name = "tensorboard.compat.notf"
    sys.modules[name] = types.ModuleType(name)
    from tensorboard import default, program

    board = program.TensorBoard(default.get_plugins(), server_class=server)
    # Its fast loader listens at a port of its own, which asks nobody for a token.
    board.configure(logdir=logs, load_fast="false", reload_interval=5.0)
    made = board._make_server()
    with open(port_file + ".part", "w", encoding="ascii") as file:
        file.write(str(made.server_port))
    os.replace(port_file + ".part", port_file)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    made.serve_forever()
