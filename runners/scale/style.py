"""How the drawings look: colours, fonts, and axes that count ranks. Imports matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

INK, MUTED, GRID, PAPER = "#1b1f24", "#59616b", "#dfe3e8", "#ffffff"
# Colours that people with any colour vision tell apart (Okabe, Ito 2008), dark enough for lines on
# white; with each goes a marker, for print without colours.
SERIES = ("#0072b2", "#c14b00", "#00805c", "#a83f83", "#8a6a00", "#3a7ca8")
MARKERS = ("o", "s", "^", "D", "v", "P")
FOREIGN = ("x", "+", "1", "2", "3", "4", "*")  # of published numbers, all in one grey
PARTS = ("#9aa3ad", "#e0a100", "#0072b2", "#c14b00", "#c9ced4")

RULES: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
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
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
    "svg.hashsalt": "scale",
}


def variables() -> dict[str, str]:
    """Return the page's variable for each colour."""
    found = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"}
    for number, colour in enumerate((*SERIES, *PARTS)):
        found.setdefault(colour, f"--c{number}")
    return found


@contextmanager
def styled(**more: Any) -> Iterator[None]:
    """Draw with the rules above, whatever the user's own matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**RULES, **more})
        yield


def of(number: int) -> tuple[str, str]:
    """Return colour and marker of a series."""
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


def count_ranks(axes: Axes, ranks: Iterable[float]) -> None:
    """Make the x axis one of ranks, each doubling as long as the others, labelled at `ranks`."""
    ticks = _apart(sorted(set(ranks)))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("ranks")


def count_rates(axes: Axes) -> None:
    """Make the y axis one of rates, logarithmic too, so that perfect scaling is a straight line."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


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
