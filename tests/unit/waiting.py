"""Waiting for what another process does, never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 30


def until(is_so: Callable[[], object]) -> None:
    """Return once it is so; fail after half a minute."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
