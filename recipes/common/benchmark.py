"""Speed with its uncertainty, from the epochs of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

# 97.5 % quantiles of Student's distribution, by degrees of freedom from 1 on; then the normal one.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.960


def benchmark(epochs: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Return the mean speed of all ranks and of one, without the first epoch, which warms up.

    `ci95` is half the width of the mean's 95 % confidence interval; None with fewer than two.
    """
    rates = [epoch["count"] / epoch["seconds"] for epoch in epochs[1:]]
    mean = statistics.fmean(rates) if rates else None
    half = confidence(rates)
    return {
        "samples_per_s": mean,
        "ci95": half,
        "samples_per_s_per_rank": mean and mean / size,
        "ci95_per_rank": half and half / size,
        "groups": len(rates),
    }


def confidence(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % confidence interval of the mean of `values`."""
    freedom = len(values) - 1
    if freedom < 1:
        return None
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    return quantile * statistics.stdev(values) / math.sqrt(len(values))
