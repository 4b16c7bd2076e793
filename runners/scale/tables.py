"""A study as data: results.csv, a line for each run, and results.json, all of it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from containers import atomic

from .confidence import Estimate
from .fits import Fit
from .measure import Measured
from .report import Report
from .study_request import as_json
from .summary import Summary

SCHEMA = 1
LISTS = ("hosts", "rates")


def columns() -> list[str]:
    """Return the columns of results.csv; a list is in one cell, its parts with blanks between."""
    return [each.name for each in fields(Measured) if each.name != "versions"]


def csv_text(report: Report) -> str:
    """Return results.csv (RFC 4180, but with plain line ends)."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(), extrasaction="ignore", lineterminator="\n")
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
        "points": [_point(point) for point in report.points],
        "comparisons": [asdict(each) for each in report.comparisons],
        "fits": [_fit(fit) for fit in report.fits],
        "cautions": [asdict(each) for each in report.cautions],
        "references": [asdict(each) for each in report.references],
        "failed": [asdict(each) for each in report.failed],
        "waiting": report.waiting,
        "runs": [asdict(run) for run in report.runs],
    }


def _point(point: Summary) -> dict[str, Any]:
    value = {each.name: getattr(point, each.name) for each in fields(point)}
    value["runs"] = [run.folder for run in point.runs]
    value["budget"] = asdict(point.budget) if point.budget else None
    return {name: _plain(item) for name, item in value.items()}


def _fit(fit: Fit) -> dict[str, Any]:
    law = {"law": fit.law.name, "formula": fit.law.formula, "source": fit.law.source}
    weights = dict(zip(fit.law.meanings, fit.weights))
    ahead = [{"ranks": p.ranks, "efficiency": asdict(p.efficiency)} for p in fit.predictions]
    rest = {"variant": fit.variant, "base": fit.base, "worst": fit.worst}
    return {**law, **rest, "weights": weights, "predictions": ahead}


def _plain(item: Any) -> Any:
    return asdict(item) if isinstance(item, Estimate) else item


def write(report: Report, csv_path: Path, json_path: Path) -> None:
    """Write both, each whole or not at all."""
    atomic.write_text(csv_path, csv_text(report))
    text = json.dumps(json_value(report), indent=2, ensure_ascii=False, allow_nan=False)
    atomic.write_text(json_path, text + "\n")
