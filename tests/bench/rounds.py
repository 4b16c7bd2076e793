"""Takes turns, and what comes of it. Standard library only: programs on the login node use it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Callable, TypeVar

T = TypeVar("T")


def interleaved(cases: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call every case once a round and return its answers, by case.

    Every second round goes backwards, so that no case always follows the same other one.
    """
    found: dict[str, list[T]] = {name: [] for name in cases}
    for number in range(rounds):
        names = list(cases)
        for name in names if number % 2 == 0 else names[::-1]:
            found[name].append(cases[name]())
    return found


def seconds(action: Callable[[], object]) -> float:
    """How long one call of `action` takes, in seconds of wall clock."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def ratios(measured: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Each round's ratio: what slows the machine for a while slows both, and cancels."""
    return [value / base for value, base in zip(measured, reference)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile; the value itself three times if there is one."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
