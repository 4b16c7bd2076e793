"""A study's drawings as files for slides and print, and as parts of its page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import ScaledTranslation

from ..core import atomic
from . import plot, style
from .plot import Panel
from .report import Report, circumstances, findings
from .style import Key

WIDTH, ROW, LINE = 13.33, 2.85, 0.27  # inches: of a slide, a row of drawings, a line of text
INLINE = (4.5, 3.2)  # of one drawing in a page: its letters stay readable on a telephone
BARS = (3.6, 1.8)  # and of one of the three that a study of a single size has
BAR = 0.2  # inches that a bar takes at least
FINDINGS = 3  # lines under the title
LETTERS = 118  # that a line of the legend has room for
NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write(report: Report, png: Path, svg: Path) -> None:
    """Draw all in one figure, as PNG (200 dots an inch) and as SVG; each is replaced whole."""
    with style.styled(**{"font.size": 11}):
        figure = _figure(report, plot.panels(report))
        for path, kind, more in ((png, "png", {"dpi": 200}), (svg, "svg", {"metadata": NO_DATE})):
            with atomic.new_file(path) as part:
                figure.savefig(part, format=kind, **more)


def _figure(report: Report, panels: Sequence[Panel]) -> Figure:
    """Return the drawings side by side under a title; they share the legend of the ways."""
    legend = _legend_lines(_keys(panels))
    header = 1.1 + LINE * (len(findings(report)[:FINDINGS]) + len(legend))
    rows = [panels[start : start + 2] for start in range(0, len(panels), 2)]
    heights = [max(_height(panel, report) for panel in row) for row in rows]
    height = header + sum(heights)
    below = (0.012, 0.012, 0.976, 1 - header / height - 0.012)
    engine = ConstrainedLayoutEngine(rect=below, wspace=0.06, hspace=0.05)
    figure = Figure(figsize=(WIDTH, height), layout=engine)
    grid = figure.add_gridspec(len(rows), 2, height_ratios=heights)
    for place, panel in enumerate(panels):
        row, column = divmod(place, 2)
        # Of an odd number the last one is as wide as two.
        axes = figure.add_subplot(grid[row, column if len(rows[row]) > 1 else slice(None)])
        panel.draw(axes, report)
        _explain(axes, panel)
    _header(figure, report, legend)
    return figure


def _explain(axes: Axes, panel: Panel) -> None:
    """Write a drawing's title and note above it; the parts of the time are named below."""
    axes.set_title(panel.title)
    axes.annotate(
        panel.note, (0, 1), xycoords="axes fraction", xytext=(0, 9), fontsize=9.5,
        textcoords="offset points", color=style.MUTED, in_layout=False,
    )  # fmt: skip
    if panel.name == "budget":
        axes.set_xlabel(" ")  # the room of the legend, which takes no part in the layout
        # The place of the axis' name, 36 points below the axes.
        down = ScaledTranslation(0, -36 / 72, axes.figure.dpi_scale_trans)
        legend = axes.legend(
            handles=[key.handle() for key in panel.keys], loc="lower left", fontsize=9.5,
            ncols=len(panel.keys), handletextpad=0.1, columnspacing=0.9, borderaxespad=0,
            bbox_to_anchor=(-0.01, 0), bbox_transform=axes.transAxes + down, borderpad=0,
        )  # fmt: skip
        legend.set_in_layout(False)


def _keys(panels: Sequence[Panel]) -> list[Key]:
    """Return what the shared legend explains; the parts of the time stand at their bars."""
    keys = [key for panel in panels if panel.name != "budget" for key in panel.keys]
    return sorted(dict.fromkeys(keys), key=lambda key: key.marker in style.PUBLISHED)


def _legend_lines(keys: Sequence[Key]) -> list[list[Key]]:
    """Return the legend's entries as lines that are not too long."""
    lines: list[list[Key]] = []
    room = 0
    for key in keys:
        needed = len(key.label) + 7
        if needed > room:
            lines.append([])
            room = LETTERS
        lines[-1].append(key)
        room -= needed
    return lines


def _header(figure: Figure, report: Report, legend: Sequence[Sequence[Key]]) -> None:
    """Write title, findings, circumstances and legend, from the top down."""
    figure.draw_without_rendering()  # only then the first drawing's left edge is known
    left = figure.axes[0].get_position().x0
    height = figure.get_figheight()
    at = height - 0.25

    def line(text: str, down: float, **how: Any) -> None:
        nonlocal at
        figure.text(left, at / height, text, va="top", **how)
        at -= down

    line(report.title, 0.4, fontsize=20, fontweight="bold")
    for finding in findings(report)[:FINDINGS]:
        line(finding, LINE, fontsize=12.5)
    line(circumstances(report), 0.32, fontsize=10, color=style.MUTED)
    for keys in legend:
        figure.legend(
            handles=[key.handle() for key in keys], loc="upper left", ncols=len(keys),
            bbox_to_anchor=(left - 0.004, at / height), fontsize=11, borderaxespad=0, borderpad=0,
            handlelength=1.8, columnspacing=1.6,
        )  # fmt: skip
        at -= LINE


def inline(panel: Panel, report: Report) -> str:
    """Return one drawing as an <svg> element for a page, which decides its colours and fonts."""
    with style.styled(**{"svg.fonttype": "none", "svg.hashsalt": panel.name}):
        width, height = INLINE if len(report.sizes()) > 1 else BARS
        height = max(height, _height(panel, report) - 0.4)
        figure = Figure(figsize=(width, height), layout="constrained")
        panel.draw(figure.add_subplot(), report)
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata=NO_DATE, transparent=True)
    return _for_page(panel.name, content.getvalue().decode("utf-8"))


def _height(panel: Panel, report: Report) -> float:
    """Return the inches of a drawing with its titles: more where there are many bars."""
    bars = len(report.points)
    if len(report.sizes()) == 1:
        return 1.6 + 0.35 * bars
    return max(ROW, 1.3 + BAR * bars) if panel.name == "budget" else ROW


def _for_page(name: str, text: str) -> str:
    """Keep the <svg> element alone, with identifiers of its own and the page's colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ((?:\w+ )?)([\d.]+)px [^;\"]*", _font, text)
    names = style.variables()
    text = re.sub("|".join(names), lambda found: f"var({names[found[0]]}, {found[0]})", text)
    # The page tells what it shows, and decides how wide it is.
    opening = r'<svg \1 aria-hidden="true">'
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', opening, text, count=1)


def _font(match: re.Match[str]) -> str:
    weight = "; font-weight: 600" if match[1] else ""
    return f"font-size: {match[2]}px{weight}"
