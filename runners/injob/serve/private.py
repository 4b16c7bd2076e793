"""The folder that only its owner can read: the token in it, and the address, once there is one."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .. import json_files

TOKEN, ADDRESS = "token", "address.json"


def token(folder: str) -> str:
    """Return the token of this session."""
    with open(os.path.join(folder, TOKEN), encoding="ascii") as file:
        return file.read().strip()


def publish(folder: str, facts: dict[str, Any]) -> None:
    """Say where the server answers."""
    json_files.write(os.path.join(folder, ADDRESS), facts, mode=0o600)


def withdraw(folder: str) -> None:
    """Take the address back: nobody answers there any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, ADDRESS))
