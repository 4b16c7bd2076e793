"""TensorBoard, which has no password of its own: it runs behind a token-authenticating proxy."""

from __future__ import annotations

import os
import sys

PAGE = "/data/environment"
OPEN = "/"
NEEDS = "tensorboard"
PORT_FILE = "port"


def command(own: str, folder: str, address: str, port: int) -> list[str]:
    """Return the command line; `own` is a private folder on the node, `folder` has the logs."""
    ours = os.path.dirname(os.path.abspath(__file__))
    argv = [sys.executable, ours, "board", folder, address, str(port)]
    return [*argv, os.path.join(own, PORT_FILE)]


def environment(own: str, token_file: str) -> dict[str, str]:
    return {"RUNNER_TOKEN_FILE": token_file}


def port(own: str) -> int | None:
    """Return the port at which it listens, None while it does not say."""
    try:
        with open(os.path.join(own, PORT_FILE), encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None
