"""Laws fitted to a variant's runs, and what they predict for larger sizes. Pure.

All laws tell y(N) = N / throughput(N), the rank-seconds that one sample costs, which perfect
scaling keeps constant. Each is a sum of known terms, none with a negative weight:

- Amdahl (AFIPS 1967): y = c + d (N - 1), where d / c is the serial fraction. It holds for a
  throughput too: Gunther's universal scalability law (1993) without its second term.
- ring allreduce (Patarasuk, Yuan, J. Parallel Distrib. Comput. 2009): exchanging M bytes takes
  2 (N - 1) latencies and 2 (N - 1) / N M / bandwidth. With the samples of a rank kept (weak) a
  step costs c + a (N - 1) + b (N - 1) / N. With those of a step kept (strong) only c is shared,
  and N times as much is paid for each sample: c + a N (N - 1) + b (N - 1).

The weights minimise the squares of the relative errors over all runs. Intervals are those of the
linear model (Student's t over the runs that remain after the weights), carried on by the delta
method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from .confidence import Estimate, quantile
from .measure import Measured

Array = NDArray[np.float64]

Term = Callable[[float], float]


@dataclass(frozen=True)
class Law:
    """A law: the terms beside the constant one, and what their weights over the constant mean."""

    name: str
    source: str
    formula: str
    terms: tuple[Term, ...]
    meanings: tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """The efficiency expected at a size, which may lie between two on a curve."""

    ranks: float
    efficiency: Estimate


@dataclass(frozen=True)
class Fit:
    """A law fitted to a variant. `weights` are those of its terms over the constant.

    `worst` is the largest relative distance of a size's mean from the law.
    """

    law: Law
    variant: str
    base: int
    weights: tuple[float, ...]
    worst: float
    predictions: tuple[Prediction, ...]
    curve: tuple[Prediction, ...]


AMDAHL = Law(
    "Amdahl's law", "Amdahl, AFIPS 1967", "E = 1 / (1 + s (N - 1))",
    (lambda n: n - 1,), ("serial fraction s",),
)  # fmt: skip
WEAK_RING = Law(
    "ring allreduce", "Patarasuk, Yuan, J. Parallel Distrib. Comput. 2009",
    "E = 1 / (1 + a (N - 1) + b (N - 1) / N)",
    (lambda n: n - 1, lambda n: (n - 1) / n), ("latency: a", "bandwidth: b"),
)  # fmt: skip
STRONG_RING = replace(
    WEAK_RING,
    formula="E = 1 / (1 + a N (N - 1) + b (N - 1))",
    terms=(lambda n: n * (n - 1), lambda n: n - 1),
)


def fits(runs: Sequence[Measured], strong: bool) -> list[Fit]:
    """Return the laws that a variant's runs can test: those with fewer weights than sizes.

    The one with fewer weights is the first.
    """
    sizes = {run.ranks for run in runs}
    laws = (AMDAHL, STRONG_RING if strong else WEAK_RING)
    return [fit(law, runs) for law in laws if len(sizes) > len(law.terms) + 1]


def fit(law: Law, runs: Sequence[Measured]) -> Fit:
    ranks = [run.ranks for run in runs]
    costs = np.array([run.ranks / run.rate for run in runs])
    # Rows over costs: the squares are those of relative errors.
    rows = _rows(law, ranks) / costs[:, None]
    weights = non_negative(rows)
    spread = covariance(rows, weights)
    base, top = min(ranks), max(ranks)

    def at(size: float) -> Prediction:
        return Prediction(size, _efficiency(_rows(law, [base, size]), weights, spread, len(runs)))

    whole = tuple(at(top * times) for times in (2, 4, 8))
    curve = tuple(at(base * (8 * top / base) ** (step / 48)) for step in range(49))
    shares = tuple((weights[1:] / weights[0]).tolist())
    return Fit(law, runs[0].variant, base, shares, _worst(rows @ weights, ranks), whole, curve)


def _rows(law: Law, ranks: Sequence[float]) -> Array:
    return np.array([[1.0, *(term(n) for term in law.terms)] for n in ranks])


def non_negative(rows: Array) -> Array:
    """Return the weights, none negative, that bring each row . weights nearest to 1.

    Lawson, Hanson 1974, chapter 23. The units of the terms do not matter.
    """
    scale = np.linalg.norm(rows, axis=0)
    found: Array = nnls(rows / scale, np.ones(len(rows)))[0] / scale
    return found


def covariance(rows: Array, weights: Array) -> Array | None:
    """Return the covariance of the weights, 0 for those that are; None when no run remains."""
    used = np.flatnonzero(weights)
    table, freedom = rows[:, used], len(rows) - len(used)
    if freedom < 1 or np.linalg.matrix_rank(table) < len(used):
        return None
    found = np.zeros((len(weights), len(weights)))
    variance = np.sum((1 - rows @ weights) ** 2) / freedom
    found[np.ix_(used, used)] = np.linalg.inv(table.T @ table) * variance
    return found


def _efficiency(ends: Array, weights: Array, spread: Array | None, n: int) -> Estimate:
    """Return the cost at the base over that at a size; the interval by the delta method."""
    costs = ends @ weights
    value = float(costs[0] / costs[1])
    if spread is None:
        return Estimate(value, None, None, n)
    gradient = ends[0] / costs[0] - ends[1] / costs[1]  # of the logarithm
    variance = max(0.0, float(gradient @ spread @ gradient))
    half = quantile(n - int(np.count_nonzero(weights))) * math.sqrt(variance)
    # No law here exceeds one, since no weight is negative.
    return Estimate(value, value * math.exp(-half), min(1.0, value * math.exp(half)), n)


def _worst(told: Array, ranks: Sequence[int]) -> float:
    """Return the largest distance from 1 of a size's harmonic mean of told over measured."""
    means = [1 / np.mean(1 / told[np.array(ranks) == size]) for size in set(ranks)]
    return float(max(abs(mean - 1) for mean in means))
