"""Numbers as people read them, in tables and sentences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .confidence import Estimate


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with this many significant digits: 12,345 or 0.123; a dash for None."""
    if value is None:
        return "-"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    if whole >= digits:
        return f"{value:,.0f}"
    return f"{value:,.{digits - whole}f}" if whole else f"{value:.{digits}g}"


def percent(value: float) -> str:
    """Return a share as whole percents; limits of two runs may be beyond all sense."""
    return f"{value * 100:.0f} %" if value < 9.995 else "over 999 %"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{number(value)} s"


def interval(value: Estimate, share: bool = False) -> str:
    """Return the limits as "1,230 to 1,310"; "" where there is no interval."""
    if value.low is None or value.high is None:
        return ""
    form = percent if share else number
    return f"{form(value.low)} to {form(value.high)}"


def estimate(value: Estimate, share: bool = False) -> str:
    """Return the centre and the limits behind it in brackets; a dash where there are none."""
    form = percent if share else number
    centre = form(value.value)
    if value.low is None or value.high is None:
        return f"{centre} (-)"
    if value.low == value.high:
        return centre
    return f"{centre} ({form(value.low).removesuffix(' %')}-{form(value.high).removesuffix(' %')})"
