"""A study's results as one value, with published ones, and its findings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ..core.text import count
from .cautions import StudyCaution, cautions
from .measure import Measured
from .number_format import interval, number, percent
from .references import PublishedSeries
from .study_request import StudyRequest
from .summary import Comparison, Summary, comparisons, summaries


@dataclass(frozen=True)
class FailedPoint:
    """A run that ended without a measurement, and why; `kind` as in PointStatus."""

    folder: str
    reason: str
    kind: str = ""


@dataclass(frozen=True)
class StudyReport:
    """Everything known of a study; `waiting` counts the runs that are to come."""

    question: StudyRequest
    points: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]
    cautions: tuple[StudyCaution, ...]
    references: tuple[PublishedSeries, ...]
    failed: tuple[FailedPoint, ...]
    waiting: int
    command: str

    @property
    def runs(self) -> list[Measured]:
        return [run for point in self.points for run in point.runs]

    @property
    def unit(self) -> str:
        return self.points[0].unit if self.points else "samples"

    @property
    def title(self) -> str:
        trainers = {dict(way.settings).get("trainer") for way in self.question.variants} - {None}
        names = ", ".join(sorted(map(str, trainers))) or self.question.trainer
        if len(self.sizes()) == 1:
            return f"{names} on {count(self.sizes()[0], 'rank')}"
        kind = "strong" if self.question.strong else "weak"
        return f"{names}: {kind} scaling"

    def by_variant(self) -> dict[str, list[Summary]]:
        points: dict[str, list[Summary]] = {}
        for point in self.points:
            points.setdefault(point.variant, []).append(point)
        return points

    def sizes(self) -> list[int]:
        return sorted({point.ranks for point in self.points})

    def name_of(self, point: Summary) -> str:
        uneven = len({summary.ranks / summary.nodes for summary in self.points}) > 1
        size = f"{point.nodes}x{point.ranks // point.nodes}" if uneven else point.nodes
        return f"{size} {point.variant}".strip()


def build(
    question: StudyRequest, runs: Sequence[Measured], references: Sequence[PublishedSeries],
    failed: Sequence[FailedPoint] = (), waiting: int = 0, command: str = "",
) -> StudyReport:  # fmt: skip
    """Return the report of the runs that were measured."""
    labels = [way.label for way in question.variants]
    ordered = sorted(runs, key=lambda run: (labels.index(run.variant), run.ranks, run.repeat))
    points = summaries(ordered)
    return StudyReport(
        question, tuple(points), tuple(comparisons(points)),
        tuple(cautions(points, question.repeats)), tuple(references), tuple(failed), waiting,
        command,
    )  # fmt: skip


def findings(report: StudyReport) -> list[str]:
    """Return what a study found: how each way scales, then how they compare at the largest size."""
    scaled = [
        _scaled(points)
        for points in report.by_variant().values()
        if points[-1].ranks > points[0].ranks
    ]
    last = {comparison.variant: comparison for comparison in report.comparisons}
    return scaled + [_compared(comparison) for comparison in last.values()]


def _scaled(points: Sequence[Summary]) -> str:
    first, last = points[0], points[-1]
    way = f"{last.variant}: " if last.variant else ""
    limits = interval(last.efficiency, share=True)
    return (
        f"{way}{count(last.ranks, 'rank')} on {count(last.nodes, 'node')} are "
        f"{number(last.speed_up.value)} times as fast as {count(first.ranks, 'rank')}: efficiency "
        f"{percent(last.efficiency.value)}" + (f" (95 % interval {limits})" if limits else "")
    )


def _compared(comparison: Comparison) -> str:
    limits, where = interval(comparison.ratio), f"on {count(comparison.ranks, 'rank')}"
    times = f"{number(comparison.ratio.value)} times"
    if limits and not comparison.sure:
        both = f"{comparison.variant} and {comparison.to} show no sure difference {where}"
        return f"{both} ({times}, 95 % interval {limits})"
    sentence = f"{comparison.variant} is {times} as fast as {comparison.to} {where}"
    return sentence + (f" (95 % interval {limits})" if limits else " (one run of each)")


def circumstances(report: StudyReport) -> str:
    """Return what was measured with, where and when, in a line."""
    runs = report.runs
    images = sorted({PurePath(run.image).name for run in runs if run.image})
    devices = sorted({run.device for run in runs if run.device})
    hosts = sorted({host for run in runs for host in run.hosts}, key=lambda name: (len(name), name))
    shown = f"{len(hosts)} hosts, {hosts[0]} to {hosts[-1]}" if hosts[4:] else ", ".join(hosts)
    day = max((run.finished[:10] for run in runs), default="")
    facts = [", ".join(images), ", ".join(devices), shown]
    facts += [f"{count(report.question.repeats, 'run')} of each size", day]
    return "  ·  ".join(fact for fact in facts if fact)
