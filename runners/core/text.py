"""Numbers and lists as people read them."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def count(number: int, what: str) -> str:
    """Return a number of things: "1 run" or "3 runs"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def human_size(number: float) -> str:
    """Return a number of bytes: 40.0 kB, 1.2 GB (powers of 1000, as disks are sold)."""
    if number < 1000:
        return f"{number:.0f} bytes"
    unit = next((n for n in range(1, 4) if number < 1000 ** (n + 1)), 4)
    return f"{number / 1000**unit:.1f} {UNITS[unit]}"


def first_few(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items, and how many more there are: "a, b and 3 more"."""
    listed = separator.join(items[:most])
    left = len(items) - most
    return f"{listed}{separator.replace(',', '')}and {left} more" if left > 0 else listed
