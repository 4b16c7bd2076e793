"""How the drawings look: colours, markers, fonts, and axes that count ranks. Imports matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from .confidence import Estimate

INK, MUTED, GRID, PAPER = "#1b1f24", "#59616b", "#dfe3e8", "#ffffff"
# Colours that people with any colour vision tell apart (Okabe, Ito 2008), dark enough for lines on
# white; with each goes a marker, for print without colours.
SERIES = ("#0072b2", "#c14b00", "#00805c", "#a83f83", "#8a6a00", "#3a7ca8")
MARKERS = ("o", "s", "^", "D", "v", "P")
PUBLISHED = ("x", "+", "*", "<", ">", "p", "h")  # markers of published numbers, all in one grey
DOUBT = "#d9dde3"
GLYPHS = dict(zip("os^DvPx+*<>ph", "●■▲◆▼✚✕+✶◁▷⬠⬡"))  # the markers as letters, for the page
DOTTED = (0, (1, 2))
REACH = 2.5  # an interval that goes so far beyond all values is cut, and ends in an arrow

RULES: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
    "svg.hashsalt": "scale",
}


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a marker, a kind of line (DOTTED, or none), or both."""

    label: str
    colour: str
    marker: str = ""
    line: Any = "none"
    hollow: bool = False

    @property
    def glyph(self) -> str:
        """The marker, or else the line, as letters."""
        if self.marker:
            return "○" if self.hollow else GLYPHS[self.marker]
        return "┈┈"

    def handle(self) -> Line2D:
        """Return it as matplotlib's legends take it."""
        return Line2D(
            [], [], color=self.colour, marker=self.marker, linestyle=self.line, linewidth=1.4,
            markerfacecolor=PAPER if self.hollow else self.colour, label=self.label,
        )  # fmt: skip


def variables() -> dict[str, str]:
    names = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper", DOUBT: "--doubt"}
    names.update({colour: f"--c{number}" for number, colour in enumerate(SERIES)})
    return names


@contextmanager
def styled(**more: Any) -> Iterator[None]:
    """Draw with the rules above, whatever the user's own matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**RULES, **more})
        yield


def of(number: int) -> tuple[str, str]:
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


def count_ranks(axes: Axes, ranks: Iterable[float]) -> None:
    """Make the x axis one of ranks, each doubling as long as the others, labelled at `ranks`."""
    ticks = _apart(sorted(set(ranks)))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    # Room for markers and for what stands beside them.
    room = max(ticks[-1] / ticks[0], 2.0) ** 0.07
    axes.set_xlim(ticks[0] / room, ticks[-1] * room)
    axes.set_xlabel("ranks")


def count_rates(axes: Axes, low: float, high: float) -> None:
    """Make the y axis one of rates, logarithmic too, so that perfect scaling is a straight line."""
    axes.set_ylim(low, high)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=_steps(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Return where in each decade ticks stand: few over many decades, more in a part of one."""
    decades = high / low
    if decades > 300:
        return (1,)
    return (1, 2, 5) if decades > 8 else (1, 1.5, 2, 3, 4, 5, 6, 8)


def _apart(ranks: list[float]) -> list[float]:
    """Leave out ticks that would stand on each other, from the largest down."""
    kept: list[float] = []
    for number in reversed(ranks):
        if not kept or kept[-1] / number > 1.3:
            kept.append(number)
    return kept[::-1]


def plain(value: float) -> str:
    """Return a number for an axis: 12,000 or 0.05, never 1.2e4."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def limits(values: Sequence[float], estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return limits of an axis around all values, and around intervals that are not too wide."""
    low, high = min(values), max(values)
    lows = [max(each.low, low / REACH) for each in estimates if each.low is not None]
    highs = [min(each.high, high * REACH) for each in estimates if each.high is not None]
    return min([low, *lows]), max([high, *highs])


def interval(axes: Axes, value: Estimate, at: float, colour: str) -> None:
    """Draw an interval; an end that lies outside of the drawing is an arrow."""
    if value.low is None or value.high is None or value.low == value.high:
        return
    bottom, top = axes.get_ylim()
    ends = max(value.low, bottom), min(value.high, top)
    marks = ("_" if value.low >= bottom else "v", "_" if value.high <= top else "^")
    axes.plot([at, at], ends, color=colour, linewidth=1.3, clip_on=False)
    for end, mark in zip(ends, marks):
        axes.plot(at, end, color=colour, marker=mark, markersize=4, clip_on=False)
