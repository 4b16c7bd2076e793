"""From single runs to the points of a study: speed, speed-up, efficiency, where time goes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from . import confidence
from .confidence import Estimate
from .measure import Measured


@dataclass(frozen=True)
class Budget:
    """Where the seconds of a job go, means over a point's runs; they add up to the job's.

    `launch` is until the first step: container, imports, ranks that meet, data. `warm_up` is what
    the first epoch takes more than the later ones, `training` what all epochs would take with
    perfect scaling, `exchange` what they take beyond that: communication, waiting for the slowest
    rank, work that is not shared. `rest` is evaluation, checkpoints and the end.
    """

    launch: float
    warm_up: float
    training: float
    exchange: float
    rest: float

    @property
    def job(self) -> float:
        return float(sum(astuple(self)))


@dataclass(frozen=True)
class Summary:
    """One point: a variant on a number of nodes.

    `speed_up` is to the variant's smallest size, `efficiency` that over the growth in ranks; both
    are those of throughput, in weak and strong studies alike. `serial` is the serial fraction by
    Karp and Flatt, None at the smallest size.
    """

    variant: str
    nodes: int
    ranks: int
    unit: str
    runs: tuple[Measured, ...]
    rate: Estimate
    speed_up: Estimate
    efficiency: Estimate
    serial: float | None
    epoch_seconds: Estimate | None
    first_epoch_seconds: Estimate | None
    launch_seconds: Estimate | None
    accuracy: float | None
    exchange: float | None
    waiting: float | None
    budget: Budget | None

    @property
    def base(self) -> bool:
        """Whether the others of its variant are compared to it."""
        return self.serial is None


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
    one, growth = runs[0], runs[0].ranks / base[0].ranks
    same = runs is base
    speed_up = Estimate(1, 1, 1, len(runs)) if same else _ratio(runs, base)
    efficiency = speed_up if same else speed_up.scaled(1 / growth)
    return Summary(
        variant=one.variant, nodes=one.nodes, ranks=one.ranks, unit=one.unit, runs=tuple(runs),
        rate=confidence.mean([run.rate for run in runs]), speed_up=speed_up, efficiency=efficiency,
        serial=None if same or growth == 1 else serial_fraction(speed_up.value, growth),
        epoch_seconds=_estimate(run.epoch_seconds for run in runs),
        first_epoch_seconds=_estimate(run.first_epoch_seconds for run in runs),
        launch_seconds=_estimate(run.launch_seconds for run in runs),
        accuracy=_mean(run.accuracy for run in runs),
        exchange=_mean(_share(run, run.exchange_seconds) for run in runs),
        waiting=_mean(_share(run, run.waiting_seconds) for run in runs),
        budget=_budget(runs, efficiency.value),
    )  # fmt: skip


def _ratio(runs: Sequence[Measured], base: Sequence[Measured]) -> Estimate:
    return confidence.ratio([run.rate for run in runs], [run.rate for run in base])


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    known = [value for value in values if value]
    return confidence.mean(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _share(run: Measured, seconds: float | None) -> float | None:
    return seconds / run.steady_seconds if run.steady_seconds and seconds is not None else None


def serial_fraction(speed_up: float, growth: float) -> float:
    """Return the fraction of Karp and Flatt (CACM 1990): what Amdahl's law makes of one speed-up.

    One that grows with the size tells of a cost that grows with it, such as communication.
    """
    return (1 / speed_up - 1 / growth) / (1 - 1 / growth)


def _budget(runs: Sequence[Measured], efficiency: float) -> Budget | None:
    """Return the mean budget of the runs that know all their times; None when there is none."""
    rows = [row for row in (_seconds(run, efficiency) for run in runs) if row]
    return Budget(*(statistics.fmean(column) for column in zip(*rows))) if rows else None


def _seconds(run: Measured, efficiency: float) -> tuple[float, ...] | None:
    known = (run.launch_seconds, run.job_seconds, run.epoch_seconds, run.first_epoch_seconds)
    if None in known:
        return None
    launch, job, epoch, first = (seconds or 0.0 for seconds in known)
    warm_up = max(0.0, first - epoch)
    steady = run.training_seconds - warm_up
    ideal = steady * min(1.0, efficiency)
    rest = max(0.0, job - launch - run.training_seconds)
    return launch, warm_up, ideal, steady - ideal, rest


def comparisons(points: Sequence[Summary]) -> list[Comparison]:
    """Compare each variant with the first one, at each size that both have."""
    first = points[0].variant if points else ""
    base = {(point.nodes, point.ranks): point for point in points if point.variant == first}
    comparisons = []
    for point in points:
        other = base.get((point.nodes, point.ranks))
        if point.variant != first and other:
            ratio = _ratio(point.runs, other.runs)
            comparisons.append(Comparison(point.variant, first, point.nodes, point.ranks, ratio))
    return comparisons
