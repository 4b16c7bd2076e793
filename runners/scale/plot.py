"""Draws a study: throughput, efficiency, seconds of an epoch, where the time goes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from . import style
from .cautions import TOO_GOOD
from .confidence import Estimate
from .report import Report
from .summary import Summary
from .tables import replace

Draw = Callable[[Axes, Report], None]
SIZE = (4.5, 3.5)  # inches of one drawing: its letters stay readable on a telephone
DODGE = 0.03  # by which variants stand beside each other, as a share of their place
PARTS = ("start", "warm-up", "training", "exchange and waiting", "the rest")
NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def throughput(axes: Axes, report: Report) -> None:
    """Draw what each variant trains on in a second, each run, and the lines of perfect scaling."""
    shown = [run.rate for run in report.runs]
    for number, points in enumerate(report.by_variant().values()):
        colour, _ = style.of(number)
        ranks = [point.ranks for point in points]
        first = points[0]
        ideal = [first.rate.value * n / first.ranks for n in ranks]
        shown += ideal
        axes.plot(ranks, ideal, color=colour, linewidth=0.9, linestyle=(0, (1, 2)))
        for point in points:
            each = [run.rate for run in point.runs]
            x = _beside(point.ranks, number)
            axes.plot([x] * len(each), each, ".", color=colour, alpha=0.45, markersize=4)
        _estimates(axes, points, [point.rate for point in points], number)
    # Intervals of two runs reach far: those that leave the drawing are in the tables.
    axes.set_ylim(*_around(shown))
    style.count_rates(axes)
    style.count_ranks(axes, report.sizes())
    axes.set_ylabel(f"{report.unit}/s")
    axes.set_title("Throughput")
    axes.plot([], [], color=style.MUTED, linewidth=0.9, linestyle=(0, (1, 2)), label="perfect")
    axes.legend(loc="best")


def efficiency(axes: Axes, report: Report) -> None:
    """Draw efficiency, what the laws predict beyond, and published numbers."""
    axes.axhline(1, color=style.MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.axhspan(TOO_GOOD, 9, color=style.GRID, alpha=0.5, linewidth=0)
    sizes: set[float] = set(report.sizes())
    for number, (name, points) in enumerate(report.by_variant().items()):
        colour, _ = style.of(number)
        fit = report.best_fit(name)
        if fit:
            line = [(at.ranks, at.efficiency.value) for at in fit.curve]
            axes.plot(*zip(*line), color=colour, linewidth=1, linestyle="--", alpha=0.8)
            sizes |= {at.ranks for at in fit.predictions}
        _estimates(axes, points, [point.efficiency for point in points], number, joined=fit is None)
    for number, reference in enumerate(report.references):
        marker = style.FOREIGN[number % len(style.FOREIGN)]
        axes.plot(
            reference.ranks, reference.efficiency, color=style.MUTED, linewidth=0.8,
            marker=marker, markersize=5, label=reference.title,
        )  # fmt: skip
        sizes |= set(reference.ranks)
    style.count_ranks(axes, sizes)
    highs = [point.efficiency.value for point in report.points]
    highs += [value for reference in report.references for value in reference.efficiency]
    axes.set_ylim(0, max(1.15, 1.1 * max(highs)))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_title("Efficiency")
    if report.fits:
        axes.plot([], [], color=style.MUTED, linewidth=1, linestyle="--", label="fitted law")
    if report.references:
        # Their names are long, and their lines go anywhere.
        axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.16))
    else:
        axes.legend(loc="lower left")


def epochs(axes: Axes, report: Report) -> None:
    """Draw the seconds of an epoch, those of the first one apart."""
    for number, points in enumerate(report.by_variant().values()):
        colour, _ = style.of(number)
        timed = [point for point in points if point.epoch_seconds]
        _estimates(axes, timed, [p.epoch_seconds for p in timed if p.epoch_seconds], number)
        firsts = [(p.ranks, p.first_epoch_seconds.value) for p in timed if p.first_epoch_seconds]
        if firsts:
            axes.plot(
                *zip(*firsts), color=colour, linewidth=1, linestyle=":", marker="o",
                markerfacecolor=style.PAPER, markersize=5,
            )  # fmt: skip
    axes.plot(
        [], [], color=style.MUTED, linestyle=":", marker="o", markerfacecolor=style.PAPER,
        markersize=5, label="first epoch",
    )  # fmt: skip
    style.count_ranks(axes, report.sizes())
    seconds = [run.epoch_seconds or 0 for run in report.runs]
    seconds += [run.first_epoch_seconds or 0 for run in report.runs]
    axes.set_ylim(0, 1.3 * max(seconds))
    axes.set_ylabel("s")
    axes.set_title("Seconds of an epoch")
    axes.legend(loc="upper right")


def budget(axes: Axes, report: Report) -> None:
    """Draw where a job's time goes, as shares, a bar for each point."""
    points = [point for point in report.points if point.budget]
    names = [report.name_of(point) for point in points]
    left = [0.0] * len(points)
    for number, (part, colour) in enumerate(zip(PARTS, style.PARTS)):
        shares = [_shares(point)[number] for point in points]
        axes.barh(names, shares, left=left, color=colour, label=part, height=0.7)
        left = [a + b for a, b in zip(left, shares)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_title("Where the time of a job goes", pad=52)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, columnspacing=1,
        handlelength=1, handletextpad=0.5, borderaxespad=0,
    )  # fmt: skip


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Return limits of a logarithmic axis around all values, with room for the legend."""
    low, high = min(values), max(values)
    room = max(high / low, 2.0) ** 0.15
    return low / room, high * room**2


def _shares(point: Summary) -> list[float]:
    parts = point.budget
    assert parts is not None  # asked of points that have one
    values = (parts.launch, parts.warm_up, parts.training, parts.exchange, parts.rest)
    return [value / parts.job for value in values]


def _beside(ranks: int, number: int) -> float:
    return ranks * (1 + DODGE * number)


def _estimates(
    axes: Axes, points: Sequence[Summary], values: Sequence[Estimate], number: int,
    joined: bool = True,
) -> None:  # fmt: skip
    """Draw estimates with their intervals; a point without one has a hollow marker."""
    if not points:
        return
    colour, marker = style.of(number)
    places = [_beside(point.ranks, number) for point in points]
    axes.plot(
        places, [v.value for v in values], color=colour, marker=marker, markersize=5,
        linestyle="-" if joined else "none", label=points[0].variant or "measured",
    )  # fmt: skip
    for x, value in zip(places, values):
        if value.low is not None and value.high is not None:
            axes.plot([x, x], [value.low, value.high], color=colour, linewidth=1.2, marker="_",
                      markersize=6)  # fmt: skip


DRAWINGS: dict[str, Draw] = {
    "throughput": throughput,
    "efficiency": efficiency,
    "epochs": epochs,
    "budget": budget,
}


def drawings(report: Report) -> dict[str, Draw]:
    """Return the drawings for which there are numbers."""
    if not report.points:
        return {}
    timed = any(point.epoch_seconds for point in report.points)
    whole = any(point.budget for point in report.points)
    there = {"epochs": timed, "budget": whole}
    return {name: draw for name, draw in DRAWINGS.items() if there.get(name, True)}


def write(report: Report, png: Path, svg: Path) -> None:
    """Draw all in one figure, as PNG (200 dots an inch) and as SVG; each is replaced whole."""
    with style.styled():
        draws = drawings(report)
        names = list(draws)
        rows = (len(draws) + 1) // 2
        height = sum(
            max(_height(n, report) for n in names[i : i + 2]) for i in range(0, rows * 2, 2)
        )
        figure = Figure(figsize=(SIZE[0] * 2, height + 0.4), layout="constrained")
        figure.suptitle(report.title, fontsize=12, fontweight="bold", x=0.01, ha="left")
        for number, draw in enumerate(draws.values(), 1):
            draw(figure.add_subplot(rows, 2, number), report)
        for path, kind, more in ((png, "png", {"dpi": 200}), (svg, "svg", {"metadata": NO_DATE})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, **more)
            replace(path, content.getvalue())


def inline(name: str, report: Report) -> str:
    """Return one drawing as an <svg> element for a page, which decides its colours and fonts."""
    with style.styled(**{"svg.fonttype": "none", "svg.hashsalt": name}):
        figure = Figure(figsize=(SIZE[0], _height(name, report)), layout="constrained")
        DRAWINGS[name](figure.add_subplot(), report)
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata=NO_DATE, transparent=True)
    return _for_page(name, content.getvalue().decode("utf-8"))


def _height(name: str, report: Report) -> float:
    """Return the inches that a drawing needs: more with more bars, or lines in its legend."""
    if name == "budget":
        return 1.7 + 0.3 * len(report.points)
    more = len(report.references) + len(report.by_variant()) + 1
    return SIZE[1] + 0.2 * more * (name == "efficiency" and bool(report.references))


def _for_page(name: str, text: str) -> str:
    """Keep the <svg> element alone, with identifiers of its own and the page's colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    names = style.variables()
    text = re.sub("|".join(names), lambda found: f"var({names[found[0]]}, {found[0]})", text)
    # The page tells what it shows, and decides how wide it is.
    opening = r'<svg \1 aria-hidden="true">'
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', opening, text, count=1)
