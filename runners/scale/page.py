"""Draws a study: scaling.png, scaling.svg, and its page. Needs the extra packages.

The page is one HTML file that needs nothing else, neither network nor scripts.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .. import __version__
from ..core import atomic
from ..core.errors import SystemFault
from . import number_format, plot, style
from .plot import Panel
from .report import Report, circumstances, findings
from .study import StudyPaths
from .style import Key
from .summary import TOO_GOOD

HERE = Path(__file__).parent
WIDTH, ROW, LINE = 13.33, 2.85, 0.27  # inches: of a slide, a row of drawings, a line of text
INLINE = (4.5, 3.2)  # of one drawing in a page: its letters stay readable on a telephone
FINDINGS = 3  # lines under the title
LETTERS = 118  # that a line of the legend has room for
NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write(report: Report, paths: StudyPaths) -> None:
    """Write the drawings and the page. Raises SystemFault for what cannot be written."""
    try:
        if report.points:
            draw(report, paths.png, paths.svg)
        atomic.write_text(paths.page, html(report, time.time()))
    except OSError as error:
        raise SystemFault(f"cannot write into {paths.root}", str(error)) from None


def draw(report: Report, png: Path, svg: Path) -> None:
    """Draw all in one figure, as PNG (200 dots an inch) and as SVG; each is replaced whole."""
    with style.styled(**{"font.size": 11}):
        figure = _figure(report, plot.panels(report))
        for path, kind, more in ((png, "png", {"dpi": 200}), (svg, "svg", {"metadata": NO_DATE})):
            with atomic.new_file(path) as part:
                figure.savefig(part, format=kind, **more)


def _figure(report: Report, panels: Sequence[Panel]) -> Figure:
    """Return the drawings side by side under a title; they share the legend of the ways."""
    keys = dict.fromkeys(key for panel in panels for key in panel.keys)
    legend = _legend_lines(sorted(keys, key=lambda key: key.marker in style.PUBLISHED))
    header = 1.1 + LINE * (len(findings(report)[:FINDINGS]) + len(legend))
    rows = -(-len(panels) // 2)
    height = header + ROW * rows
    below = (0.012, 0.012, 0.976, 1 - header / height - 0.012)
    engine = ConstrainedLayoutEngine(rect=below, wspace=0.06, hspace=0.05)
    figure = Figure(figsize=(WIDTH, height), layout=engine)
    grid = figure.add_gridspec(rows, 2)
    for place, panel in enumerate(panels):
        row, column = divmod(place, 2)
        # Of an odd number the last one is as wide as two.
        alone = column == 0 and panel is panels[-1]
        axes = figure.add_subplot(grid[row, slice(None) if alone else column])
        panel.draw(axes, report)
        _explain(axes, panel)
    _header(figure, report, legend)
    return figure


def _explain(axes: Axes, panel: Panel) -> None:
    """Write a drawing's title and note above it."""
    axes.set_title(panel.title)
    axes.annotate(
        panel.note, (0, 1), xycoords="axes fraction", xytext=(0, 9), fontsize=9.5,
        textcoords="offset points", color=style.MUTED, in_layout=False,
    )  # fmt: skip


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


def html(report: Report, made: float) -> str:
    """Return the page; `made` is the Unix time that it shows."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name in ("number", "percent", "seconds", "interval"):
        environment.filters[name] = _unbroken(getattr(number_format, name))
    environment.filters["counted"] = number_format.count  # jinja has a filter `count` of its own
    # Markup: matplotlib escapes what it writes, and the style is the project's own file; autoescape
    # would turn their marks into entities.
    drawings = [(each, Markup(inline(each, report))) for each in plot.panels(report)]  # noqa: S704
    text: str = environment.get_template("page.html").render(
        report=report,
        drawings=drawings,
        findings=findings(report),
        circumstances=circumstances(report),
        variables=style.variables(),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made)),
        version=__version__,
        too_good=TOO_GOOD,
    )
    return text


def _unbroken(told: Callable[..., str]) -> Callable[..., str]:
    """Keep a number and its unit in one line."""
    return lambda *args: re.sub(r" (?=[%s])", "\N{NO-BREAK SPACE}", told(*args))


def inline(panel: Panel, report: Report) -> str:
    """Return one drawing as an <svg> element for a page, which decides its colours and fonts."""
    with style.styled(**{"svg.fonttype": "none", "svg.hashsalt": panel.name}):
        figure = Figure(figsize=INLINE, layout="constrained")
        panel.draw(figure.add_subplot(), report)
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata=NO_DATE, transparent=True)
    return _for_page(panel.name, content.getvalue().decode("utf-8"))


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
