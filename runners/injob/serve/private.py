"""The folder that only its owner can read: the token in it, and the address, once there is one."""

from __future__ import annotations

import json
import os
from typing import Any

TOKEN, ADDRESS = "token", "address.json"


def token(folder: str) -> str:
    """Return the token of this session."""
    with open(os.path.join(folder, TOKEN), encoding="ascii") as file:
        return file.read().strip()


def publish(folder: str, facts: dict[str, Any]) -> None:
    """Say where the server answers; by rename, so that nobody reads half of it."""
    path = os.path.join(folder, ADDRESS)
    file = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as part:
        json.dump(facts, part)
    os.replace(path + ".part", path)


def withdraw(folder: str) -> None:
    """Take the address back: nobody answers there any more."""
    if os.path.exists(os.path.join(folder, ADDRESS)):
        os.unlink(os.path.join(folder, ADDRESS))
