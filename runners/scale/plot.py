"""Draws a study: throughput, efficiency, time of an epoch, where the time goes. The axes alone:
`figure` puts them under a title for a slide, `page` among text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from . import number_format, style
from .confidence import Estimate
from .fits import Fit
from .references import TOO_GOOD
from .report import Report
from .style import DASHED, DOTTED, Key
from .summary import Budget, Summary

Draw = Callable[[Axes, Report], None]
APART = 0.08  # doublings of ranks by which the ways stand beside each other
AHEAD = 4  # a law is drawn up to so many times the largest size
REACH = 2.5  # an interval that goes so far beyond all values is cut, and ends in an arrow
TIMES = "\N{MULTIPLICATION SIGN}"
PARTS = ("start-up", "warm-up", "training", "exchange and waiting", "rest")


@dataclass(frozen=True)
class Panel:
    """One drawing: its name, what stands above it and explains it, its legend, who draws it."""

    name: str
    title: str
    note: str
    keys: tuple[Key, ...]
    draw: Draw


def panels(report: Report) -> list[Panel]:
    """Return the drawings for which there are numbers; bars where there is a single size."""
    if not report.points:
        return []
    found = _bars(report) if len(report.sizes()) == 1 else _curves(report)
    if _budgets(report):
        note = "Share of each part, from the start of the job's script to its end"
        spent = [max(column) for column in zip(*map(_shares, _budgets(report)))]
        keys = tuple(Key(*each, "s") for each, most in zip(zip(PARTS, style.PARTS), spent) if most)
        found.append(Panel("budget", "Where the time of a job goes", note, keys, budget))
    return found


def _bars(report: Report) -> list[Panel]:
    note = f"{number_format.count(report.points[0].ranks, 'rank')} together; line: 95 % interval"
    if report.comparisons:
        note += f"; {TIMES} means times {report.points[0].variant}"
    found = [Panel("throughput", "Throughput", note, (), throughput_bars)]
    if any(point.epoch_seconds for point in report.points):
        note = "Median epoch, mean of the runs; hollow: the first epoch"
        found.append(Panel("epochs", "Time of an epoch", note, (), epoch_bars))
    return found


def _curves(report: Report) -> list[Panel]:
    names = [name for name in report.by_variant() if name]
    ways = [Key(name, *style.of(number), "-") for number, name in enumerate(names)]
    perfect = Key("perfect scaling", style.MUTED, line=DOTTED)
    note = "All ranks together; small dots: runs, bars: 95 % interval of their mean"
    found = [Panel("throughput", "Throughput", note, (*ways, perfect), throughput)]
    laws = {fit.law.name: None for fit in _laws(report).values()}
    keys = [*ways, *(Key(f"{name}, fitted", style.MUTED, line=DASHED) for name in laws)]
    if _doubtful(report):
        doubt = f"above {number_format.percent(TOO_GOOD)}: the smallest size was slow or cold"
        keys.append(Key(doubt, style.PARTS[-1], "s"))
    keys += [_published(report, number) for number in range(len(report.references))]
    note = "Speed-up over growth in ranks; 100 % is perfect scaling"
    if laws:
        note = "Speed-up over growth in ranks; shaded: 95 % interval if the law holds"
    found.append(Panel("efficiency", "Efficiency", note, tuple(keys), efficiency))
    if any(point.epoch_seconds for point in report.points):
        note = "Median epoch, mean of the runs; hollow: the first epoch"
        first = Key("first epoch", style.MUTED, "o", DOTTED, hollow=True)
        found.append(Panel("epochs", "Time of an epoch", note, (*ways, first), epochs))
    return found


def _published(report: Report, number: int) -> Key:
    marker = style.PUBLISHED[number % len(style.PUBLISHED)]
    return Key(report.references[number].title, style.MUTED, marker, "-")


def _laws(report: Report) -> dict[str, Fit]:
    """Return the law to draw for each way that has one."""
    found = {name: report.best_fit(name) for name in report.by_variant()}
    return {name: fit for name, fit in found.items() if fit}


def throughput(axes: Axes, report: Report) -> None:
    """Draw what each way trains on in a second, each run, and the lines of perfect scaling."""
    shown = [run.rate for run in report.runs]
    for number, points in enumerate(report.by_variant().values()):
        colour, _ = style.of(number)
        ranks = [point.ranks for point in points]
        ideal = [points[0].rate.value * n / points[0].ranks for n in ranks]
        shown += ideal
        axes.plot(ranks, ideal, color=colour, linewidth=1, linestyle=DOTTED)
    low, high = _limits(shown, [point.rate for point in report.points])
    style.count_rates(axes, low / 1.1, high * 1.1)
    for number, points in enumerate(report.by_variant().values()):
        for point, x in zip(points, _places(report, points, number)):
            each = [run.rate for run in point.runs]
            axes.plot(
                [x] * len(each), each, ".", color=style.of(number)[0], alpha=0.4, markersize=5
            )
        _estimates(axes, report, points, [point.rate for point in points], number)
    style.count_ranks(axes, report.sizes())
    axes.set_ylabel(f"{report.unit}/s")


def efficiency(axes: Axes, report: Report) -> None:
    """Draw efficiency, what the laws predict beyond, and published numbers."""
    sizes: set[float] = set(report.sizes())
    axes.set_ylim(0, _top(report))
    if _doubtful(report):
        axes.axhspan(TOO_GOOD, _top(report), color=style.PARTS[-1], alpha=0.4, linewidth=0)
    axes.axhline(1, color=style.MUTED, linewidth=1, linestyle=DOTTED)
    for number, (name, points) in enumerate(report.by_variant().items()):
        fit = _laws(report).get(name)
        if fit:
            sizes |= _law(axes, fit, number, max(report.sizes()))
        values = [point.efficiency for point in points]
        _estimates(axes, report, points, values, number, joined=fit is None)
    for number, reference in enumerate(report.references):
        key = _published(report, number)
        axes.plot(reference.ranks, reference.efficiency, color=key.colour, linewidth=0.9,
                  marker=key.marker, markersize=6)  # fmt: skip
        sizes |= set(reference.ranks)
    style.count_ranks(axes, sizes)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_ylabel("efficiency")


def _law(axes: Axes, fit: Fit, number: int, largest: int) -> set[float]:
    """Draw a law and its interval beyond what was measured; return the sizes that it adds."""
    colour, _ = style.of(number)
    curve = [at for at in fit.curve if at.ranks <= AHEAD * largest * 1.001]
    axes.plot([at.ranks for at in curve], [at.efficiency.value for at in curve], color=colour,
              linewidth=1.2, linestyle=DASHED)  # fmt: skip
    beyond = [at for at in curve if at.ranks >= largest and at.efficiency.low is not None]
    if beyond:
        lows = [at.efficiency.low or 0 for at in beyond]
        highs = [at.efficiency.high or 0 for at in beyond]
        places = [at.ranks for at in beyond]
        axes.fill_between(places, lows, highs, color=colour, alpha=0.12, linewidth=0)
    return {at.ranks for at in fit.predictions if at.ranks <= AHEAD * largest}


def _doubtful(report: Report) -> bool:
    published = [value for each in report.references for value in each.efficiency]
    return max([*published, *(point.efficiency.value for point in report.points)]) > TOO_GOOD


def _top(report: Report) -> float:
    """Return the upper limit of the efficiencies."""
    published = [value for each in report.references for value in each.efficiency]
    own = [point.efficiency for point in report.points]
    return 1.05 * max([1.0, _limits([value.value for value in own], own)[1], *published])


def epochs(axes: Axes, report: Report) -> None:
    """Draw the seconds of an epoch, those of the first one apart."""
    timed = [point for point in report.points if point.epoch_seconds]
    firsts = [point.first_epoch_seconds.value for point in timed if point.first_epoch_seconds]
    steady = [point.epoch_seconds for point in timed if point.epoch_seconds]
    _, high = _limits([*firsts, *(value.value for value in steady)], steady)
    axes.set_ylim(0, 1.08 * high)
    for number, points in enumerate(report.by_variant().values()):
        own = [point for point in points if point in timed]
        _estimates(axes, report, own, [p.epoch_seconds for p in own if p.epoch_seconds], number)
        first = [(x, p.first_epoch_seconds.value) for p, x in zip(own, _places(report, own, number))
                 if p.first_epoch_seconds]  # fmt: skip
        if first:
            axes.plot(*zip(*first), linewidth=1, linestyle=DOTTED, markersize=6,
                      **_hollow(number))  # fmt: skip
    style.count_ranks(axes, report.sizes())
    axes.set_ylabel("seconds per epoch")


def _hollow(number: int) -> dict[str, Any]:
    colour, marker = style.of(number)
    return {"color": colour, "marker": marker, "markerfacecolor": style.PAPER}


def throughput_bars(axes: Axes, report: Report) -> None:
    """Draw a bar for each way, its number, and how many times that of the first way it is."""
    values = [point.rate for point in report.points]
    ratios = {(each.variant, each.nodes): each.ratio for each in report.comparisons}
    texts = [number_format.number(value.value) for value in values]
    for place, point in enumerate(report.points):
        ratio = ratios.get((point.variant, point.nodes))
        texts[place] += f"  {number_format.number(ratio.value)} {TIMES}" if ratio else ""
    _bars_of(axes, report, report.points, values, texts)
    axes.set_xlabel(f"{report.unit}/s")


def epoch_bars(axes: Axes, report: Report) -> None:
    """Draw the seconds of an epoch as bars, the first epoch as a hollow marker."""
    points = [point for point in report.points if point.epoch_seconds]
    values = [point.epoch_seconds for point in points if point.epoch_seconds]
    texts = [number_format.seconds(value.value) for value in values]
    firsts = [point.first_epoch_seconds for point in points]
    for place, first in enumerate(firsts):
        texts[place] += f"  (first {number_format.seconds(first.value)})" if first else ""
    _bars_of(axes, report, points, values, texts, [each.value if each else 0 for each in firsts])
    for place, (point, first) in enumerate(zip(points, firsts)):
        if first:
            look = _hollow(_way(report, point))
            axes.plot([first.value], [place], markersize=6, linestyle="none", **look)
    axes.set_xlabel("seconds per epoch")


def _bars_of(
    axes: Axes, report: Report, points: Sequence[Summary], values: Sequence[Estimate],
    texts: Sequence[str], beyond: Sequence[float] = (),
) -> None:  # fmt: skip
    """Draw estimates as bars with intervals, and texts behind them and what else is `beyond`."""
    _, high = _limits([*beyond, *(value.value for value in values)], values)
    axes.set_xlim(0, 1.75 * high)
    for place, (point, value) in enumerate(zip(points, values)):
        colour, _ = style.of(_way(report, point))
        axes.barh([place], [value.value], color=colour, alpha=0.55, height=0.6)
        _interval(axes, value, place, colour, upright=False)
        ends = (value.value, min(value.high or 0, high), *beyond[place : place + 1])
        axes.annotate(texts[place], (max(ends), place), xytext=(10, 0), va="center",
                      textcoords="offset points", fontweight="bold", in_layout=False)  # fmt: skip
    _names(axes, _labels(report, points))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: style.plain(value))


def _labels(report: Report, points: Sequence[Summary]) -> list[str]:
    """Return the names of bars; of a single size that is the way alone."""
    ways = [point.variant or number_format.count(point.nodes, "node") for point in points]
    alone = len(report.sizes()) == 1 and len(set(ways)) == len(ways)
    return ways if alone else [report.name_of(point) for point in points]


def _way(report: Report, point: Summary) -> int:
    return list(report.by_variant()).index(point.variant)


def _names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def budget(axes: Axes, report: Report) -> None:
    """Draw where a job's time goes, as shares, a bar for each point."""
    rows = [_shares(parts) for parts in _budgets(report)]
    left = [0.0] * len(rows)
    for column, colour in zip(zip(*rows), style.PARTS):
        axes.barh(range(len(rows)), column, left=left, color=colour, height=0.7)
        left = [a + b for a, b in zip(left, column)]
    _names(axes, _labels(report, [point for point in report.points if point.budget]))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_xlabel("share of the job's time")
    if len(report.sizes()) > 1:
        axes.set_ylabel("nodes")


def _budgets(report: Report) -> list[Budget]:
    return [point.budget for point in report.points if point.budget]


def _shares(parts: Budget) -> list[float]:
    values = (parts.launch, parts.warm_up, parts.training, parts.exchange, parts.rest)
    return [value / parts.job for value in values]


def _limits(values: Sequence[float], estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return limits of an axis around all values, and around intervals that are not too wide."""
    low, high = min(values), max(values)
    lows = [max(each.low, low / REACH) for each in estimates if each.low is not None]
    highs = [min(each.high, high * REACH) for each in estimates if each.high is not None]
    return min([low, *lows]), max([high, *highs])


def _places(report: Report, points: Sequence[Summary], number: int) -> list[float]:
    """Return where points stand: at their ranks, the ways beside each other."""
    aside = APART * (number - (len(report.by_variant()) - 1) / 2)
    octaves = max(report.sizes()) / min(report.sizes())
    return [point.ranks * 2 ** (aside * max(1.0, octaves**0.2)) for point in points]


def _estimates(
    axes: Axes, report: Report, points: Sequence[Summary], values: Sequence[Estimate],
    number: int, joined: bool = True,
) -> None:  # fmt: skip
    """Draw estimates with their intervals, in limits that are set already."""
    colour, marker = style.of(number)
    places = _places(report, points, number)
    line = "-" if joined else "none"
    axes.plot(places, [v.value for v in values], color=colour, marker=marker, linestyle=line)
    for x, value in zip(places, values):
        _interval(axes, value, x, colour, upright=True)


def _interval(axes: Axes, value: Estimate, at: float, colour: str, upright: bool) -> None:
    """Draw an interval; an end that lies outside of the drawing is an arrow."""
    if value.low is None or value.high is None or value.low == value.high:
        return
    bottom, top = axes.get_ylim() if upright else axes.get_xlim()
    ends = max(value.low, bottom), min(value.high, top)
    marks = ("_" if value.low >= bottom else "v", "_" if value.high <= top else "^")
    if not upright:
        marks = ("|" if value.low >= bottom else "<", "|" if value.high <= top else ">")
    line = [(at, end) if upright else (end, at) for end in ends]
    axes.plot(*zip(*line), color=colour, linewidth=1.3, clip_on=False)
    for place, mark in zip(line, marks):
        axes.plot(*place, color=colour, marker=mark, markersize=6, clip_on=False)
