"""Which of several results is the best, and by what. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import UsageError, nearest
from ..jobs.metrics_tail import RATE
from ..monitoring.run_group import RunResult

FIRST = ("accuracy", "loss")  # what decides, where results have it; else the first rate
# Of other names those with such a part are the better the less they are.
LESS = ("loss", "error", "perplexity", "seconds", "time")
NO_METRIC = ("seconds", "time")  # ends of names that say how a run went, not what it reached


@dataclass(frozen=True)
class Ranking:
    """How results are compared: by `metric`, None where they have no number in common to go by.

    `order` has their places, the best first; `metrics` are the names to show, that one first.
    """

    metric: str | None
    order: Sequence[int]
    metrics: Sequence[str]


@dataclass(frozen=True)
class RankedRuns:
    """Runs that were submitted together, the best first; what varies and what they reached."""

    ordered: Sequence[RunResult]
    varied: Sequence[str]
    metric: str | None
    metrics: Sequence[str]

    @property
    def best(self) -> RunResult | None:
        return self.ordered[0] if self.metric else None


def ranked(results: Sequence[RunResult], sort: str | None) -> RankedRuns:
    """Rank runs that were submitted together; raises as `metric`."""
    ranking = rank([run.result or {} for run in results], sort)
    ordered = [results[place] for place in ranking.order]
    varied = names([run.job.varied for run in results])
    return RankedRuns(ordered, varied, ranking.metric, ranking.metrics)


def names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of facts that any run has, in the order of first mention."""
    return list(dict.fromkeys(name for facts in runs for name in facts))


def metrics(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names by which results can be compared, the one that decides first.

    They are accuracy and loss, then rates, then what else a trainer writes as a fraction.
    """
    fractions = dict.fromkeys(
        name for result in results for name, value in result.items() if isinstance(value, float)
    )
    whole = {name for result in results for name in result if is_number(result[name])}
    first = [name for name in FIRST if name in whole]
    rates = [name for name in dict.fromkeys([*fractions, *sorted(whole)]) if name.endswith(RATE)]
    metrics = [name for name in fractions if not name.endswith(NO_METRIC)]
    return list(dict.fromkeys([*first, *rates, *metrics]))


def is_number(value: Any) -> bool:
    """Whether a value can be sorted by: a number that is one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def less_is_better(name: str) -> bool:
    """Whether the smaller of two such numbers is the better one."""
    return not name.endswith(RATE) and any(part in name.lower() for part in LESS)


def metric(results: Sequence[Mapping[str, Any]], requested: str | None) -> str | None:
    """Return what to sort by: what was asked, else what decides; None where there is nothing.

    Raises UsageError for a name that is no number of any result.
    """
    if requested is None:
        return next(iter(metrics(results)), None)
    known = {name for result in results for name, value in result.items() if is_number(value)}
    if requested not in known:
        raise UsageError(
            f"--sort {requested}: no run has such a number",
            nearest(requested, sorted(known)),
            id="sort-number-unknown",
        )
    return requested


def rank(results: Sequence[Mapping[str, Any]], sort: str | None) -> Ranking:
    """Rank results by the metric `sort`, by default what decides; raises as `metric`."""
    by = metric(results, sort)
    names = dict.fromkeys([*([by] if by else []), *metrics(results)])
    return Ranking(by, best_first(results, by), list(names))


def best_first(results: Sequence[Mapping[str, Any]], name: str | None) -> list[int]:
    """Return the places of results, the best first, those without the number at the end.

    Without a name they stay in their order.
    """

    def worth(place: int) -> float:
        value: Any = results[place].get(name or "")
        if not is_number(value):
            return math.inf
        return float(value if less_is_better(name or "") else -value)

    return sorted(range(len(results)), key=worth)
