"""Draws a study: scaling.png, scaling.svg, and its page. Needs the extra packages.

The page is one HTML file that needs nothing else, neither network nor scripts.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from ..core import atomic, disk_space
from ..core.text import count
from ..core.version import __version__
from . import number_format, plot, style
from .plot import Panel
from .report import StudyReport, circumstances, findings
from .study import StudyPaths
from .summary import TOO_GOOD

HERE = Path(__file__).parent
WIDTH, HEIGHT = 13.33, 6.5  # inches: of a slide
INLINE = (4.5, 3.2)  # of one drawing in a page: its letters stay readable on a telephone
FINDINGS = 3  # lines under the title
NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write(report: StudyReport, paths: StudyPaths) -> None:
    """Write the drawings and the page. Raises SystemFault for what cannot be written."""
    with disk_space.writing(paths.page):
        if report.points:
            draw(report, paths.png, paths.svg)
        atomic.write_text(paths.page, html(report, time.time()))


def draw(report: StudyReport, png: Path, svg: Path) -> None:
    """Draw all in one figure, as PNG (200 dots an inch) and as SVG; each is replaced whole."""
    with style.styled(**{"font.size": 11}):
        figure = _figure(report, plot.panels(report))
        for path, kind, more in ((png, "png", {"dpi": 200}), (svg, "svg", {"metadata": NO_DATE})):
            with atomic.new_file(path) as part:
                figure.savefig(part, format=kind, **more)


def _figure(report: StudyReport, panels: Sequence[Panel]) -> Figure:
    """Return the drawings side by side, what was found above them, their legend below."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    title = [report.title, *findings(report)[:FINDINGS], circumstances(report)]
    figure.suptitle("\n".join(title), x=0.01, ha="left")
    for panel, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0]):
        panel.draw(axes, report)
        axes.set_title(panel.title)
    keys = dict.fromkeys(key for panel in panels for key in panel.keys)
    figure.legend(handles=[key.handle() for key in keys], loc="outside lower left", ncols=3)
    return figure


def html(report: StudyReport, made: float) -> str:
    """Return the page; `made` is the Unix time that it shows."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name in ("number", "percent", "seconds", "interval"):
        environment.filters[name] = _unbroken(getattr(number_format, name))
    environment.filters["counted"] = count  # jinja has a filter `count` of its own
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


def _unbroken(written: Callable[..., str]) -> Callable[..., str]:
    """Keep a number and its unit in one line."""
    return lambda *args: re.sub(r" (?=[%s])", "\N{NO-BREAK SPACE}", written(*args))


def inline(panel: Panel, report: StudyReport) -> str:
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
    names = style.variables()
    text = re.sub("|".join(names), lambda found: f"var({names[found[0]]}, {found[0]})", text)
    # The page tells what it shows, and decides how wide it is.
    opening = r'<svg \1 aria-hidden="true">'
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', opening, text, count=1)
