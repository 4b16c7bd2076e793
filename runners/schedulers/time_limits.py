"""Time limits from Slurm's form to that of other schedulers. Pure."""

from __future__ import annotations


def seconds(text: str) -> int | None:
    """Return a limit in Slurm's form, such as 30, 1:30:00 or 2-12:00, in seconds; None for none.

    sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, and with days from the hours on.
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, secs = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, secs = numbers
    else:
        hours, minutes, secs = (0, *numbers, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + secs


def clock(total: int) -> str:
    """Return seconds as HH:MM:SS."""
    return f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"
