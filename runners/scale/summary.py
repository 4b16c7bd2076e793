"""From single runs to the points of a study: speed, speed-up, efficiency, comparisons. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import confidence
from .confidence import Estimate
from .measure import Measured

TOO_GOOD = 1.05  # efficiency: what is above is no scaling but a slow baseline


@dataclass(frozen=True)
class Summary:
    """One point: a variant on a number of nodes.

    `speed_up` is to the variant's smallest size, `efficiency` that over the growth in ranks; both
    are those of throughput, in weak and strong studies alike. `base` is the smallest size.
    """

    variant: str
    nodes: int
    ranks: int
    unit: str
    runs: tuple[Measured, ...]
    rate: Estimate
    speed_up: Estimate
    efficiency: Estimate
    base: bool
    epoch_seconds: Estimate | None
    first_epoch_seconds: Estimate | None
    launch_seconds: Estimate | None
    accuracy: float | None


@dataclass(frozen=True)
class Comparison:
    """By how much one variant is faster than another at the same size."""

    variant: str
    to: str
    nodes: int
    ranks: int
    ratio: Estimate

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out "equally fast"."""
        return self.ratio.low is not None and not self.ratio.low <= 1 <= (self.ratio.high or 0)


def summaries(runs: Iterable[Measured]) -> list[Summary]:
    """Return a summary for each variant and size, in the order in which variants came, then size.

    Runs count as one point when their variant, nodes and ranks agree.
    """
    groups: dict[tuple[str, int, int], list[Measured]] = {}
    for run in runs:
        groups.setdefault((run.variant, run.ranks, run.nodes), []).append(run)
    summaries = []
    for name in dict.fromkeys(variant for variant, _, _ in groups):
        keys = sorted(key for key in groups if key[0] == name)
        summaries += [_summary(groups[key], groups[keys[0]]) for key in keys]
    return summaries


def _summary(runs: Sequence[Measured], base: Sequence[Measured]) -> Summary:
    first, growth, same = runs[0], runs[0].ranks / base[0].ranks, runs is base
    speed_up = Estimate(1, 1, 1, len(runs)) if same else _ratio(runs, base)
    efficiency = speed_up if same else speed_up.scaled(1 / growth)
    reached = [run.accuracy for run in runs if run.accuracy is not None]
    return Summary(
        variant=first.variant, nodes=first.nodes, ranks=first.ranks, unit=first.unit,
        runs=tuple(runs),
        rate=confidence.mean([run.rate for run in runs]), speed_up=speed_up, efficiency=efficiency,
        base=same,
        epoch_seconds=_estimate(run.epoch_seconds for run in runs),
        first_epoch_seconds=_estimate(run.first_epoch_seconds for run in runs),
        launch_seconds=_estimate(run.launch_seconds for run in runs),
        accuracy=statistics.fmean(reached) if reached else None,
    )  # fmt: skip


def _ratio(runs: Sequence[Measured], base: Sequence[Measured]) -> Estimate:
    return confidence.ratio([run.rate for run in runs], [run.rate for run in base])


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    known = [value for value in values if value]
    return confidence.mean(known) if known else None


def comparisons(points: Sequence[Summary]) -> list[Comparison]:
    """Compare each variant with the first one, at each size that both have."""
    first = points[0].variant if points else ""
    base = {(point.nodes, point.ranks): point for point in points if point.variant == first}
    comparisons = []
    for point in points:
        rival = base.get((point.nodes, point.ranks))
        if point.variant != first and rival:
            ratio = _ratio(point.runs, rival.runs)
            comparisons.append(Comparison(point.variant, first, point.nodes, point.ranks, ratio))
    return comparisons
