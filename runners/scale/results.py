"""Writes what a study shows, from its folder: results.csv, results.json, the drawings, the page.

The page is one HTML file that needs nothing else, neither network nor scripts. Needs the extra
packages.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from ..core import atomic
from ..core.errors import SystemFault
from . import cautions, figure, number_format, plot, references, style
from .measure import Measured
from .references import TOO_GOOD
from .report import Failed, Report, build, circumstances, findings
from .study import ENDED, PointState, PointStatus, StudyPaths, StudyRecord
from .study_request import as_json

SCHEMA = 1
LISTS = ("hosts", "rates")
HERE = Path(__file__).parent


def study(paths: StudyPaths, record: StudyRecord, statuses: Sequence[PointStatus]) -> Report:
    """Write results.csv, results.json, the drawings and the page; return what they show.

    Raises SystemFault for what cannot be written; each file is whole, the old one or the new one.
    """
    report = build(
        record.question,
        [each.measured for each in statuses if each.measured],
        references.chosen(record.references),
        [
            Failed(each.paths.root.name if each.paths else each.point.key, each.reason, each.kind)
            for each in statuses
            if each.state is PointState.FAILED
        ],
        sum(each.state not in ENDED for each in statuses),
        record.command,
    )
    try:
        atomic.write_text(paths.csv, csv_text(report))
        text = json.dumps(json_value(report), indent=2, ensure_ascii=False, allow_nan=False)
        atomic.write_text(paths.json, text + "\n")
        if report.points:
            figure.write(report, paths.png, paths.svg)
        atomic.write_text(paths.page, html(report, time.time()))
    except OSError as error:
        raise SystemFault(f"cannot write into {paths.root}", str(error)) from None
    return report


def csv_text(report: Report) -> str:
    """Return results.csv (RFC 4180, but with plain line ends).

    A list is in one cell, its parts with blanks between.
    """
    text = io.StringIO()
    columns = [each.name for each in fields(Measured) if each.name != "versions"]
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for run in report.runs:
        lists = {name: " ".join(str(part) for part in getattr(run, name)) for name in LISTS}
        writer.writerow({**asdict(run), **lists})
    return text.getvalue()


def json_value(report: Report) -> dict[str, Any]:
    """Return what results.json holds; intervals are of 95 %, null where there is none."""
    return {
        "schema": SCHEMA,
        "command": report.command,
        "question": as_json(report.question),
        "unit": report.unit,
        "points": [{**asdict(p), "runs": [run.folder for run in p.runs]} for p in report.points],
        "comparisons": [asdict(each) for each in report.comparisons],
        "cautions": [asdict(each) for each in report.cautions],
        "references": [asdict(each) for each in report.references],
        "failed": [asdict(each) for each in report.failed],
        "waiting": report.waiting,
        "runs": [asdict(run) for run in report.runs],
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
