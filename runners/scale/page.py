"""Draws a study: scaling.png, scaling.svg, and its page. Needs the extra packages.

The page is one HTML file that needs nothing else, neither network nor scripts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from ..core import atomic
from ..core.errors import SystemFault
from . import cautions, figure, number_format, plot, style
from .references import TOO_GOOD
from .report import Report, circumstances, findings
from .study import StudyPaths

HERE = Path(__file__).parent


def write(report: Report, paths: StudyPaths) -> None:
    """Write the drawings and the page. Raises SystemFault for what cannot be written."""
    try:
        if report.points:
            figure.write(report, paths.png, paths.svg)
        atomic.write_text(paths.page, html(report, time.time()))
    except OSError as error:
        raise SystemFault(f"cannot write into {paths.root}", str(error)) from None


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
    panels = plot.panels(report)
    drawings = [(each, Markup(figure.inline(each, report))) for each in panels]  # noqa: S704
    text: str = environment.get_template("page.html").render(
        report=report,
        drawings=drawings,
        findings=findings(report),
        cautions=[cautions.told(each) for each in report.cautions],
        circumstances=circumstances(report),
        variables=style.variables(),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made)),
        version=__version__,
        too_good=TOO_GOOD,
        timed=any(point.exchange is not None for point in report.points),
    )
    return text


def _unbroken(told: Callable[..., str]) -> Callable[..., str]:
    """Keep a number and its unit in one line."""
    return lambda *args: re.sub(r" (?=[%s])", "\N{NO-BREAK SPACE}", told(*args))
