"""Draws a study as one PNG: throughput, efficiency, time of an epoch. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from ..core import atomic, disk_space
from .confidence import Estimate
from .report import StudyReport, circumstances, findings
from .summary import Summary

Draw = Callable[[Axes, StudyReport], None]
WIDTH, HEIGHT = 13.33, 6.5  # inches: of a slide
FINDINGS = 3  # lines under the title
# Colours that people with any colour vision tell apart (Okabe, Ito 2008), dark enough for lines on
# white; with each goes a marker, for print without colours.
COLOURS = ("#0072b2", "#c14b00", "#00805c", "#a83f83", "#8a6a00", "#3a7ca8")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#59616b"  # of perfect scaling and of published numbers
PUBLISHED = ("x", "+", "*", "<", ">", "p", "h")
APART = 1.05  # of places on the axis of ranks, where several ways stand beside each other
REACH = 2.5  # an interval that goes so far beyond all values is cut by the edge of the drawing


def write(report: StudyReport, png: Path) -> None:
    """Replace the drawing as a whole. Raises SystemFault where it cannot be written."""
    panels = [throughput]
    if len(report.sizes()) > 1:
        panels.append(efficiency)
    if any(point.epoch_seconds for point in report.points):
        panels.append(epochs)
    # Whatever the user's own matplotlibrc says.
    with matplotlib.rc_context(matplotlib.rcParamsDefault), disk_space.writing(png):
        figure = _figure(report, panels)
        with atomic.new_file(png) as part:
            figure.savefig(part, format="png", dpi=200)


def _figure(report: StudyReport, panels: Sequence[Draw]) -> Figure:
    """Return the panels side by side, the findings above them, one legend below."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    title = [report.title, *findings(report)[:FINDINGS], circumstances(report)]
    figure.suptitle("\n".join(title), x=0.01, ha="left")
    entries: dict[str, Any] = {}
    for draw, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0]):
        axes.grid(color="#dfe3e8")
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, report)
        handles, labels = axes.get_legend_handles_labels()
        entries.update(zip(labels, handles))
    figure.legend(entries.values(), entries, loc="outside lower left", ncols=3, frameon=False)
    return figure


def throughput(axes: Axes, report: StudyReport) -> None:
    """Draw what each way trains on in a second, each run, and the lines of perfect scaling."""
    rates = [run.rate for run in report.runs]
    for number, points in enumerate(report.by_variant().values()):
        ranks = [point.ranks for point in points]
        perfect = [points[0].rate.value * n / points[0].ranks for n in ranks]
        rates += perfect
        if len(points) > 1:
            label = "" if number else "perfect scaling"
            axes.plot(ranks, perfect, color=_colour(number), linestyle=":", label=label)
        for point, place in zip(points, _places(points, number)):
            single = [run.rate for run in point.runs]
            axes.plot([place] * len(single), single, ".", color=_colour(number), markersize=4)
        _estimates(axes, points, [point.rate for point in points], number)
    low, high = _limits(rates, [point.rate for point in report.points])
    axes.set_ylim(low / 1.1, high * 1.1)
    axes.set_yscale("log")
    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:.3g}"))
    _count_ranks(axes, report.sizes())
    axes.set(title="Throughput", ylabel=f"{report.unit}/s")


def efficiency(axes: Axes, report: StudyReport) -> None:
    """Draw speed-up over growth in ranks, and the published ones."""
    sizes = set(report.sizes())
    axes.axhline(1, color=GREY, linestyle=":")
    for number, points in enumerate(report.by_variant().values()):
        _estimates(axes, points, [point.efficiency for point in points], number)
    for reference, marker in zip(report.references, PUBLISHED * len(report.references)):
        axes.plot(
            reference.ranks, reference.efficiency, color=GREY, linewidth=0.9, marker=marker,
            label=reference.title,
        )  # fmt: skip
        sizes |= set(reference.ranks)
    published = [value for reference in report.references for value in reference.efficiency]
    estimates = [point.efficiency for point in report.points]
    shares = [1.0, *published, *(share.value for share in estimates)]
    axes.set_ylim(0, 1.05 * _limits(shares, estimates)[1])
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    _count_ranks(axes, sizes)
    axes.set(title="Efficiency", ylabel="speed-up / growth in ranks")


def epochs(axes: Axes, report: StudyReport) -> None:
    """Draw the median seconds of an epoch, those of the first one apart."""
    drawn: list[float] = []
    estimates: list[Estimate] = []
    for number, points in enumerate(report.by_variant().values()):
        timed = [(point, point.epoch_seconds) for point in points if point.epoch_seconds]
        steady = [seconds for _, seconds in timed]
        _estimates(axes, [point for point, _ in timed], steady, number)
        firsts = [(point, point.first_epoch_seconds) for point in points]
        cold = [(point, first.value) for point, first in firsts if first]
        axes.plot(
            _places([point for point, _ in cold], number), [value for _, value in cold], ":",
            color=_colour(number), marker=_marker(number), markerfacecolor="white",
            label="" if number else "first epoch",
        )  # fmt: skip
        estimates += steady
        drawn += [*(seconds.value for seconds in steady), *(value for _, value in cold)]
    axes.set_ylim(0, 1.08 * _limits(drawn, estimates)[1])
    _count_ranks(axes, report.sizes())
    axes.set(title="Time of an epoch", ylabel="seconds")


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def _places(points: Sequence[Summary], number: int) -> list[float]:
    return [point.ranks * APART**number for point in points]


def _estimates(
    axes: Axes, points: Sequence[Summary], values: Sequence[Estimate], number: int
) -> None:
    """Draw estimates with their 95 % intervals; where there is none, the points alone."""
    ends = [(value.low or value.value, value.high or value.value) for value in values]
    below = [value.value - low for value, (low, _) in zip(values, ends)]
    above = [high - value.value for value, (_, high) in zip(values, ends)]
    axes.errorbar(
        _places(points, number), [value.value for value in values], yerr=(below, above),
        color=_colour(number), marker=_marker(number), capsize=3,
        label=points[0].variant if points else "",
    )  # fmt: skip


def _limits(values: Sequence[float], estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return limits of an axis around all values, and around intervals that are not too wide."""
    low, high = min(values), max(values)
    lows = [max(value.low, low / REACH) for value in estimates if value.low is not None]
    highs = [min(value.high, high * REACH) for value in estimates if value.high is not None]
    return min([low, *lows]), max([high, *highs])


def _count_ranks(axes: Axes, ranks: Iterable[int]) -> None:
    """Make the x axis one of ranks, each doubling as long as the others, labelled at `ranks`."""
    ticks: list[int] = []
    for number in sorted(set(ranks), reverse=True):
        if not ticks or ticks[-1] / number > 1.3:  # labels do not stand on each other
            ticks.append(number)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{number:,}" for number in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    room = max(ticks[0] / ticks[-1], 2.0) ** 0.07  # for markers, and what stands beside them
    axes.set_xlim(ticks[-1] / room, ticks[0] * room * APART)
    axes.set_xlabel("ranks")
