"""Numbers, times and lists as text."""

from __future__ import annotations

import time
from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """Return a number of things: "1 run" or "3 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def utc(seconds: float | None = None) -> str:
    """Return a time since 1970, or now, such as 2026-11-21T10:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def span(seconds: float | None) -> str:
    """Return seconds as 0:07, 1:02:03 or 2-03:04:05, as Slurm writes them; "" for None."""
    if seconds is None:
        return ""
    minutes, secs = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def first_few(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items, and how many more there are: "a, b and 3 more"."""
    listed = separator.join(items[:most])
    left = len(items) - most
    return f"{listed}{separator.replace(',', '')}and {left} more" if left > 0 else listed
