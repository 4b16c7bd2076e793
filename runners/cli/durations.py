"""Times as people read them."""

from __future__ import annotations

import time

DAY = 86400


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


def moment(when: float, now: float) -> str:
    """Return a time of day, with the date where it is not within the next, or last, 12 hours."""
    form = "%H:%M" if abs(when - now) < DAY / 2 else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(when))


def stamp(when: float | None) -> str | None:
    """Return a time for programs and tables."""
    return None if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
