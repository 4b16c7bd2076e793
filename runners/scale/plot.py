"""Draws a study: throughput, efficiency, time of an epoch. The axes alone: `page` puts them under a
title for a slide, and among text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from . import number_format, style
from .confidence import Estimate
from .report import StudyReport
from .style import DOTTED, Key
from .summary import TOO_GOOD, Summary

Draw = Callable[[Axes, StudyReport], None]
APART = 0.08  # doublings of ranks by which the ways stand beside each other


@dataclass(frozen=True)
class Panel:
    """One drawing: its name, what stands above it and explains it, its legend, who draws it."""

    name: str
    title: str
    note: str
    keys: tuple[Key, ...]
    draw: Draw


def panels(report: StudyReport) -> list[Panel]:
    """Return the drawings for which there are numbers."""
    if not report.points:
        return []
    ways = [Key(name, *style.of(n), "-") for n, name in enumerate(report.by_variant()) if name]
    several = len(report.sizes()) > 1
    perfect = [Key("perfect scaling", style.MUTED, line=DOTTED)] * several
    note = "All ranks together; small dots: runs, bars: 95 % interval of their mean"
    shown = [Panel("throughput", "Throughput", note, (*ways, *perfect), throughput)]
    if several:
        note = "Speed-up over growth in ranks; 100 % is perfect scaling"
        keys = _efficiency_keys(report, ways)
        shown.append(Panel("efficiency", "Efficiency", note, keys, efficiency))
    if any(point.epoch_seconds for point in report.points):
        note = "Median epoch, mean of the runs; hollow: the first epoch"
        first = Key("first epoch", style.MUTED, "o", DOTTED, hollow=True)
        shown.append(Panel("epochs", "Time of an epoch", note, (*ways, first), epochs))
    return shown


def _efficiency_keys(report: StudyReport, ways: Sequence[Key]) -> tuple[Key, ...]:
    keys = [*ways]
    if _doubtful(report):
        doubt = f"above {number_format.percent(TOO_GOOD)}: the smallest size was slow or cold"
        keys.append(Key(doubt, style.DOUBT, "s"))
    return (*keys, *(_published(report, number) for number in range(len(report.references))))


def _published(report: StudyReport, number: int) -> Key:
    marker = style.PUBLISHED[number % len(style.PUBLISHED)]
    return Key(report.references[number].title, style.MUTED, marker, "-")


def throughput(axes: Axes, report: StudyReport) -> None:
    """Draw what each way trains on in a second, each run, and the lines of perfect scaling."""
    shown = [run.rate for run in report.runs]
    for number, points in enumerate(report.by_variant().values()):
        colour, _ = style.of(number)
        ranks = [point.ranks for point in points]
        ideal = [points[0].rate.value * n / points[0].ranks for n in ranks]
        shown += ideal
        axes.plot(ranks, ideal, color=colour, linewidth=1, linestyle=DOTTED)
    low, high = style.limits(shown, [point.rate for point in report.points])
    style.count_rates(axes, low / 1.1, high * 1.1)
    for number, points in enumerate(report.by_variant().values()):
        for point, x in zip(points, _places(report, points, number)):
            each = [run.rate for run in point.runs]
            colour, _ = style.of(number)
            axes.plot([x] * len(each), each, ".", color=colour, markeredgecolor=style.PAPER,
                      markeredgewidth=0.5, markersize=6, zorder=4)  # fmt: skip
        _estimates(axes, report, points, [point.rate for point in points], number)
    style.count_ranks(axes, report.sizes())
    axes.set_ylabel(f"{report.unit}/s")


def efficiency(axes: Axes, report: StudyReport) -> None:
    """Draw efficiency, and published numbers."""
    sizes: set[float] = set(report.sizes())
    own = [point.efficiency for point in report.points]
    top = 1.05 * max(1.0, *_efficiencies(report), style.limits([v.value for v in own], own)[1])
    axes.set_ylim(0, top)
    if _doubtful(report):
        axes.axhspan(TOO_GOOD, top, color=style.DOUBT, alpha=0.4, linewidth=0)
    axes.axhline(1, color=style.MUTED, linewidth=1, linestyle=DOTTED)
    for number, points in enumerate(report.by_variant().values()):
        _estimates(axes, report, points, [point.efficiency for point in points], number)
    for number, reference in enumerate(report.references):
        key = _published(report, number)
        axes.plot(reference.ranks, reference.efficiency, color=key.colour, linewidth=0.9,
                  marker=key.marker, markersize=6)  # fmt: skip
        sizes |= set(reference.ranks)
    style.count_ranks(axes, sizes)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_ylabel("efficiency")


def _doubtful(report: StudyReport) -> bool:
    return max(_efficiencies(report)) > TOO_GOOD


def _efficiencies(report: StudyReport) -> list[float]:
    published = [value for each in report.references for value in each.efficiency]
    return [*(point.efficiency.value for point in report.points), *published]


def epochs(axes: Axes, report: StudyReport) -> None:
    """Draw the seconds of an epoch, those of the first one apart."""
    timed = [point for point in report.points if point.epoch_seconds]
    firsts = [point.first_epoch_seconds.value for point in timed if point.first_epoch_seconds]
    steady = [point.epoch_seconds for point in timed if point.epoch_seconds]
    _, high = style.limits([*firsts, *(value.value for value in steady)], steady)
    axes.set_ylim(0, 1.08 * high)
    for number, points in enumerate(report.by_variant().values()):
        own = [point for point in points if point in timed]
        _estimates(axes, report, own, [p.epoch_seconds for p in own if p.epoch_seconds], number)
        first = [(x, p.first_epoch_seconds.value) for p, x in zip(own, _places(report, own, number))
                 if p.first_epoch_seconds]  # fmt: skip
        colour, marker = style.of(number)
        if first:
            axes.plot(*zip(*first), color=colour, linewidth=1, linestyle=DOTTED, marker=marker,
                      markersize=6, markerfacecolor=style.PAPER)  # fmt: skip
    style.count_ranks(axes, report.sizes())
    axes.set_ylabel("seconds per epoch")


def _places(report: StudyReport, points: Sequence[Summary], number: int) -> list[float]:
    """Return where points stand: at their ranks, the ways beside each other."""
    aside = APART * (number - (len(report.by_variant()) - 1) / 2)
    octaves = max(report.sizes()) / min(report.sizes())
    return [point.ranks * 2 ** (aside * max(1.0, octaves**0.2)) for point in points]


def _estimates(
    axes: Axes,
    report: StudyReport,
    points: Sequence[Summary],
    values: Sequence[Estimate],
    number: int,
) -> None:
    """Draw estimates with their intervals, in limits that are set already."""
    colour, marker = style.of(number)
    places = _places(report, points, number)
    axes.plot(places, [v.value for v in values], color=colour, marker=marker, linestyle="-")
    for x, value in zip(places, values):
        style.interval(axes, value, x, colour)
