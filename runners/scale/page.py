"""The study's page: one HTML file that needs nothing else, neither network nor scripts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from . import number_format, plot
from .cautions import TOO_GOOD
from .report import Report
from .tables import replace

HERE = Path(__file__).parent
TITLES = {
    "throughput": "What all ranks together train on in a second. A dot is a run, a bar the 95 % "
    "interval of their mean, the dotted line perfect scaling from the smallest size.",
    "efficiency": "Speed-up over growth. Dashed: the fitted law, carried on to eight times the "
    "largest size. In the grey, above 105 %, nothing is scaling.",
    "epochs": "Mean over the runs of the median epoch; hollow: the first epoch, which warms up and "
    "is in no other number.",
    "budget": "Shares of a job from the start of its script to its end, by nodes. Exchange and "
    "waiting is what training takes beyond perfect scaling.",
}


def html(report: Report, made: float) -> str:
    """Return the page; `made` is the Unix time that it shows."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name in ("number", "percent", "seconds", "interval"):
        environment.filters[name] = _unbroken(getattr(number_format, name))
    environment.filters["counted"] = number_format.count  # jinja has a filter `count` of its own
    drawings = [(n, Markup(plot.inline(n, report)), TITLES[n]) for n in plot.drawings(report)]
    text: str = environment.get_template("page.html").render(
        report=report,
        drawings=drawings,
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
    replace(path, html(report, made).encode())
