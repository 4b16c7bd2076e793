"""The study's page: one HTML file that needs nothing else, neither network nor scripts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from containers import atomic

from .. import __version__
from . import figure, number_format, plot, sentences, style
from .cautions import TOO_GOOD
from .report import Report

HERE = Path(__file__).parent


def html(report: Report, made: float) -> str:
    """Return the page; `made` is the Unix time that it shows."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name in ("number", "percent", "seconds", "interval"):
        environment.filters[name] = _unbroken(getattr(number_format, name))
    environment.filters["counted"] = number_format.count  # jinja has a filter `count` of its own
    drawings = [(panel, Markup(figure.inline(panel, report))) for panel in plot.panels(report)]
    text: str = environment.get_template("page.html").render(
        report=report,
        drawings=drawings,
        findings=sentences.findings(report),
        cautions=[sentences.caution(each) for each in report.cautions],
        circumstances=sentences.circumstances(report),
        variables=style.variables(),
        # The project's own file; autoescape would turn its quotes into entities.
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made)),
        version=__version__,
        too_good=TOO_GOOD,
        timed=any(point.exchange is not None for point in report.points),
    )
    return text


def _unbroken(told: Callable[..., str]) -> Callable[..., str]:
    """Keep a number and its unit in one line."""
    return lambda *args: re.sub(r" (?=[%s])", "\N{NO-BREAK SPACE}", told(*args))


def write(report: Report, path: Path, made: float) -> None:
    """Write the page, whole or not at all."""
    atomic.write_text(path, html(report, made))
