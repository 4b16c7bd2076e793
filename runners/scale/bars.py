"""Draws what a study of a single size has, and where the time goes, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from . import number_format, style
from .confidence import Estimate
from .report import Report
from .style import Key
from .summary import Summary

TIMES = "\N{MULTIPLICATION SIGN}"
PARTS = ("start-up", "warm-up", "training", "exchange and waiting", "rest")


class Bar(NamedTuple):
    """A bar of a point: how long, the text behind it, and where a hollow marker stands, if any."""

    point: Summary
    value: Estimate
    text: str
    marker: float | None = None


def throughput(axes: Axes, report: Report) -> None:
    """Draw a bar for each way, its number, and how many times that of the first way it is."""
    ratios = {(each.variant, each.nodes): each.ratio for each in report.comparisons}
    bars = []
    for point in report.points:
        ratio = ratios.get((point.variant, point.nodes))
        times = f"  {number_format.number(ratio.value)} {TIMES}" if ratio else ""
        bars.append(Bar(point, point.rate, number_format.number(point.rate.value) + times))
    _draw(axes, report, bars, f"{report.unit}/s")


def epochs(axes: Axes, report: Report) -> None:
    """Draw the seconds of an epoch as bars, the first epoch as a hollow marker."""
    bars = []
    for point in report.points:
        value, first = point.epoch_seconds, point.first_epoch_seconds
        if value:
            text = number_format.seconds(value.value)
            text += f"  (first {number_format.seconds(first.value)})" if first else ""
            bars.append(Bar(point, value, text, first.value if first else None))
    _draw(axes, report, bars, "seconds per epoch")


def _draw(axes: Axes, report: Report, bars: Sequence[Bar], label: str) -> None:
    ways = list(report.by_variant())
    values = [bar.value for bar in bars]
    shown = [value.value for value in values] + [bar.marker for bar in bars if bar.marker]
    _, high = style.limits(shown, values)
    axes.set_xlim(0, 1.75 * high)
    for place, bar in enumerate(bars):
        number = ways.index(bar.point.variant)
        colour, _ = style.of(number)
        axes.barh([place], [bar.value.value], color=colour, alpha=0.55, height=0.6)
        style.interval(axes, bar.value, place, colour, upright=False)
        if bar.marker:
            look = style.hollow(number)
            axes.plot([bar.marker], [place], markersize=6, linestyle="none", **look)
        end = max(bar.value.value, min(bar.value.high or 0, high), bar.marker or 0)
        axes.annotate(bar.text, (end, place), xytext=(10, 0), va="center",
                      textcoords="offset points", fontweight="bold", in_layout=False)  # fmt: skip
    _names(axes, report, [bar.point for bar in bars])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: style.plain(value))
    axes.set_xlabel(label)


def _names(axes: Axes, report: Report, points: Sequence[Summary]) -> None:
    """Name the bars; of a single size the way alone does."""
    names = [point.variant or number_format.count(point.nodes, "node") for point in points]
    if len(report.sizes()) > 1 or len(set(names)) < len(names):
        names = [report.name_of(point) for point in points]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def budget_keys(report: Report) -> tuple[Key, ...]:
    """Return the legend of the parts that take any time; none where no job's time is known."""
    spent = [max(column) for column in zip(*_shares(report))]
    return tuple(
        Key(part, colour, "s") for part, colour, most in zip(PARTS, style.PARTS, spent) if most
    )


def budget(axes: Axes, report: Report) -> None:
    """Draw where a job's time goes, as shares, a bar for each point."""
    rows = _shares(report)
    left = [0.0] * len(rows)
    for column, colour in zip(zip(*rows), style.PARTS):
        axes.barh(range(len(rows)), column, left=left, color=colour, height=0.7)
        left = [a + b for a, b in zip(left, column)]
    _names(axes, report, [point for point in report.points if point.budget])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_xlabel("share of the job's time")
    if len(report.sizes()) > 1:
        axes.set_ylabel("nodes")


def _shares(report: Report) -> list[list[float]]:
    """Return the shares of PARTS in a job's time, of each point that knows them."""
    known = [point.budget for point in report.points if point.budget]
    return [[seconds / budget.job for seconds in astuple(budget)] for budget in known]
