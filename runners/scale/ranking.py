"""Sorts runs by a number that they reached, the best first. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import UsageError, nearest

RATE = "_per_s"
FIRST = ("accuracy", "loss")  # what decides, where results have it; else the first rate
# Of other names those with such a part are the better the less they are.
LESS = ("loss", "error", "perplexity", "seconds", "time")
NO_METRIC = ("seconds", "time")  # ends of names that say how a run went, not what it reached


def metrics(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names by which results can be compared, the one that decides first.

    They are accuracy and loss, then rates, then what else a trainer writes as a fraction.
    """
    found = dict.fromkeys(
        name for result in results for name, value in result.items() if isinstance(value, float)
    )
    whole = {name for result in results for name in result if is_number(result[name])}
    first = [name for name in FIRST if name in whole]
    rates = [name for name in dict.fromkeys([*found, *sorted(whole)]) if name.endswith(RATE)]
    return list(dict.fromkeys([*first, *rates, *(n for n in found if not n.endswith(NO_METRIC))]))


def is_number(value: Any) -> bool:
    """Whether a value can be sorted by: a number that is one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def less_is_better(name: str) -> bool:
    """Whether the smaller of two such numbers is the better one."""
    return not name.endswith(RATE) and any(part in name.lower() for part in LESS)


def metric(results: Sequence[Mapping[str, Any]], asked: str | None) -> str | None:
    """Return what to sort by: what was asked, else what decides; None where there is nothing.

    Raises UsageError for a name that is no number of any result.
    """
    if asked is None:
        return next(iter(metrics(results)), None)
    known = {name for result in results for name, value in result.items() if is_number(value)}
    if asked not in known:
        raise UsageError(f"--sort {asked}: no run has such a number", nearest(asked, sorted(known)))
    return asked


def best_first(results: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    """Return the places of results, the best first, those without the number at the end."""

    def worth(place: int) -> float:
        value: Any = results[place].get(name)
        if not is_number(value):
            return math.inf
        return float(value if less_is_better(name) else -value)

    return sorted(range(len(results)), key=worth)
