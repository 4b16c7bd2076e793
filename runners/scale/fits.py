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
from dataclasses import dataclass

from .confidence import Estimate, quantile
from .least_squares import Matrix, Vector, covariance, non_negative
from .measure import Measured

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

    `worst` is the largest relative distance of a size's mean from the law; `exact` says that there
    were as many sizes as weights, so that nothing tested it.
    """

    law: Law
    variant: str
    base: int
    weights: tuple[float, ...]
    worst: float
    exact: bool
    predictions: tuple[Prediction, ...]
    curve: tuple[Prediction, ...]


def _amdahl() -> Law:
    return Law(
        "Amdahl's law", "Amdahl, AFIPS 1967", "E = 1 / (1 + s (N - 1))",
        (lambda n: n - 1,), ("serial fraction s",),
    )  # fmt: skip


def _ring(strong: bool) -> Law:
    name, source = "ring allreduce", "Patarasuk, Yuan, J. Parallel Distrib. Comput. 2009"
    meanings = ("latency: a", "bandwidth: b")
    if strong:
        terms: tuple[Term, ...] = (lambda n: n * (n - 1), lambda n: n - 1)
        return Law(
            "ring allreduce", source, "E = 1 / (1 + a N (N - 1) + b (N - 1))", terms, meanings
        )
    terms = (lambda n: n - 1, lambda n: (n - 1) / n)
    return Law(name, source, "E = 1 / (1 + a (N - 1) + b (N - 1) / N)", terms, meanings)


def laws(strong: bool) -> tuple[Law, Law]:
    """Return the laws for a strong or a weak study, the one with fewer weights first."""
    return _amdahl(), _ring(strong)


def fits(runs: Sequence[Measured], strong: bool) -> list[Fit]:
    """Return the laws that a variant's runs can tell of: at least as many sizes as weights."""
    sizes = {run.ranks for run in runs}
    return [fit(law, runs) for law in laws(strong) if len(sizes) > len(law.terms)]


def fit(law: Law, runs: Sequence[Measured]) -> Fit:
    """Fit one law to the runs of one variant."""
    data = [(run.ranks, run.ranks / run.rate) for run in runs]
    # Rows over y: the squares are those of relative errors.
    rows = [[term / y for term in _row(law, n)] for n, y in data]
    used, weights = non_negative(rows)
    spread = covariance(rows, used, weights)
    base, top = min(n for n, _ in data), max(n for n, _ in data)

    def at(ranks: float) -> Estimate:
        return _efficiency(law, weights, used, spread, base, ranks, len(data))

    whole = tuple(Prediction(top * times, at(top * times)) for times in (2, 4, 8))
    between = [base * (8 * top / base) ** (step / 48) for step in range(49)]
    curve = tuple(Prediction(n, at(n)) for n in between)
    exact = len({n for n, _ in data}) == len(law.terms) + 1
    shares = tuple(weight / weights[0] for weight in weights[1:])
    return Fit(law, runs[0].variant, base, shares, _worst(law, weights, data), exact, whole, curve)


def _row(law: Law, ranks: float) -> Vector:
    return [1.0, *(term(ranks) for term in law.terms)]


def _efficiency(
    law: Law, weights: Vector, used: list[int], spread: Matrix | None,
    base: float, ranks: float, n: int,
) -> Estimate:  # fmt: skip
    """Return y(base) / y(ranks); the interval by the delta method on its logarithm."""
    here, there = _row(law, base), _row(law, ranks)
    y_base = sum(w * x for w, x in zip(weights, here))
    y_there = sum(w * x for w, x in zip(weights, there))
    value = y_base / y_there
    if spread is None:
        return Estimate(value, None, None, n)
    gradient = [here[i] / y_base - there[i] / y_there for i in used]
    variance = sum(
        a * b * spread[i][j] for i, a in enumerate(gradient) for j, b in enumerate(gradient)
    )
    half = quantile(n - len(used)) * math.sqrt(max(0.0, variance))
    # No law here exceeds one, since no weight is negative.
    return Estimate(value, value * math.exp(-half), min(1.0, value * math.exp(half)), n)


def _worst(law: Law, weights: Vector, data: Sequence[tuple[int, float]]) -> float:
    distances = []
    for size in {n for n, _ in data}:
        told = sum(w * x for w, x in zip(weights, _row(law, size)))
        seen = [y for n, y in data if n == size]
        distances.append(abs(told / (sum(seen) / len(seen)) - 1))
    return max(distances)
