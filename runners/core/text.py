"""Numbers, times and lists as text."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..contract.log_text import human_size as human_size  # a job has its own code alone, not core


def count(number: int, noun: str) -> str:
    """Return a number of things: "1 run" or "3 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def utc(seconds: float | None = None) -> str:
    """Return a time since 1970, or now, such as 2026-11-21T10:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def first_few(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items, and how many more there are: "a, b and 3 more"."""
    listed = separator.join(items[:most])
    left = len(items) - most
    return f"{listed}{separator.replace(',', '')}and {left} more" if left > 0 else listed
