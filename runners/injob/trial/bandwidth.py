"""How fast the ranks sum numbers together."""

from __future__ import annotations

import time
from typing import Any

# Bytes and repetitions; every rank must do the same.
SIZES = ((64 * 1024, 15), (2**20, 10), (16 * 2**20, 5))
WARM_UP = 2


def measure(framework: Any, ranks: int) -> list[dict[str, Any]]:
    """Return, for each size, median seconds, algorithm and bus bandwidth in bytes a second.

    Bus bandwidth is what the slowest link must carry: algorithm bandwidth times 2 (n - 1) / n
    (nccl-tests, doc/PERFORMANCE.md). `right` is whether every sum was; `moved` are the bytes of
    them all, of which each node sends at least as many.
    """
    return [_one(framework, ranks, size, times) for size, times in SIZES]


def _one(framework: Any, ranks: int, size: int, times: int) -> dict[str, Any]:
    act = framework.summing(size // 4, f"trial.{size}")
    expected = ranks * (ranks + 1) / 2
    right = all(act() == expected for _ in range(WARM_UP))
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        right = act() == expected and right
        seconds.append(time.perf_counter() - began)
    row = result(size, sorted(seconds)[times // 2], ranks, right)
    return {**row, "moved": size * (WARM_UP + times)}


def result(size: int, seconds: float, ranks: int, right: bool) -> dict[str, Any]:
    """Return one line of the table."""
    rate = size / seconds
    bus = rate * 2 * (ranks - 1) / ranks
    return {"bytes": size, "seconds": seconds, "algorithm": rate, "bus": bus, "right": right}
