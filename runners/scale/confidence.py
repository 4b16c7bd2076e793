"""Means and ratios of few runs, with their 95 % confidence intervals. Pure.

The unit is the run, never the epoch: epochs of one run share its nodes, its memory layout and its
neighbours, and an interval from them is too narrow (Georges, Buytaert, Eeckhout, OOPSLA 2007).
Errors of speed are proportional to it, so all is reckoned on logarithms: the centre is the
geometric mean, the median of a log-normal distribution, and no interval reaches below zero
(Hoefler, Belli, SC 2015: normalise before t is used, and tell n).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

SURE = 0.975  # one side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A centre, the limits of its 95 % interval (None where there is none), and the runs behind."""

    value: float
    low: float | None
    high: float | None
    n: int

    def scaled(self, factor: float) -> Estimate:
        """Return it times a positive number that is known exactly."""
        low, high = (None if x is None else x * factor for x in (self.low, self.high))
        return Estimate(self.value * factor, low, high, self.n)


def quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t; the degrees of freedom need not be whole."""
    return float(stats.t.ppf(SURE, freedom))


def mean(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of positive numbers and its t-interval; none from one alone."""
    logs = np.log(values)
    value = math.exp(logs.mean())
    if len(logs) < 2:
        return Estimate(value, None, None, len(logs))
    half = quantile(len(logs) - 1) * float(stats.sem(logs))
    return Estimate(value, value * math.exp(-half), value * math.exp(half), len(logs))


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return mean(above) / mean(below) and its interval, by Welch's t on the logarithms.

    `n` is that of the smaller sample. There is no interval where one of them is a single run.
    """
    a, b = np.log(above), np.log(below)
    value, n = math.exp(a.mean() - b.mean()), min(len(a), len(b))
    if n < 2:
        return Estimate(value, None, None, n)
    if np.ptp(a) == np.ptp(b) == 0:
        return Estimate(value, value, value, n)
    limits = stats.ttest_ind(a, b, equal_var=False).confidence_interval(SURE - (1 - SURE))
    return Estimate(value, math.exp(limits.low), math.exp(limits.high), n)


def spread(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation, deviation over mean; None for fewer than two."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None


def fall(values: Sequence[float]) -> float | None:
    """Return by which share a series falls from end to end, None where it has no sure trend down.

    Sure is what the test of Mann (Econometrica 1945) and Kendall would see by chance in 2.5 % of
    series; the size is Sen's slope (JASA 1968) over the length. Fewer than eight numbers tell no
    trend.
    """
    n = len(values)
    if n < 8 or stats.kendalltau(range(n), values, alternative="less").pvalue > 1 - SURE:
        return None
    slope = float(stats.theilslopes(values).slope)
    return -slope * (n - 1) / statistics.fmean(values)
