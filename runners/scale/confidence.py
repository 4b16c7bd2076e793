"""Means and ratios of few runs, with their 95 % confidence intervals. Pure.

The unit is the run, never the epoch: epochs of one run share its nodes, its memory layout and its
neighbours, and an interval from them is too narrow (Georges, Buytaert, Eeckhout, OOPSLA 2007).
Errors of speed are proportional to it, so all is computed on logarithms: the centre is the
geometric mean, the median of a log-normal distribution, and no interval reaches below zero
(Hoefler, Belli, SC 2015: normalise before t is used, and tell n).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

HALF = 0.475  # of a 95 % interval: from its centre to one end
STEPS = 200  # of the integral
LEAST = 3  # runs for an interval: that of two, by t with one degree of freedom, says nothing


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


@cache
def quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t; the degrees of freedom need not be whole.

    With t = sqrt(freedom) tan(angle) the probability is an integral of cos(angle)^(freedom - 1),
    here by Simpson's rule, and the angle is found by bisection.
    """
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    low, high = 0.0, math.pi / 2
    while high - low > 1e-12:
        angle = (low + high) / 2
        step = angle / STEPS
        weights = (1, *(4, 2) * (STEPS // 2 - 1), 4, 1)
        values = (math.cos(step * number) ** (freedom - 1) for number in range(STEPS + 1))
        total = sum(weight * value for weight, value in zip(weights, values))
        below = math.exp(scale) * total * step / 3 < HALF
        low, high = (angle, high) if below else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def mean(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of positive numbers and its t-interval, if LEAST are there."""
    logs = [math.log(value) for value in values]
    value = math.exp(statistics.fmean(logs))
    if len(logs) < LEAST:
        return Estimate(value, None, None, len(logs))
    half = quantile(len(logs) - 1) * math.sqrt(statistics.variance(logs) / len(logs))
    return Estimate(value, value * math.exp(-half), value * math.exp(half), len(logs))


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return mean(above) / mean(below) and its interval, by Welch's t on the logarithms.

    `n` is that of the smaller sample. There is no interval where one has fewer than LEAST.
    """
    samples = [[math.log(value) for value in values] for values in (above, below)]
    means, n = [statistics.fmean(sample) for sample in samples], min(map(len, samples))
    value = math.exp(means[0] - means[1])
    if n < LEAST:
        return Estimate(value, None, None, n)
    errors = [statistics.variance(sample) / len(sample) for sample in samples]
    if not any(errors):
        return Estimate(value, value, value, n)
    parts = (error**2 / (len(sample) - 1) for error, sample in zip(errors, samples))
    half = quantile(sum(errors) ** 2 / sum(parts)) * math.sqrt(sum(errors))
    return Estimate(value, value * math.exp(-half), value * math.exp(half), n)


def spread(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation, deviation over mean; None for fewer than two."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else None
