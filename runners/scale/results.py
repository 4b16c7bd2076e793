"""Writes what a study shows as tables, from its folder: results.csv and results.json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from ..core import atomic, disk_space
from .measure import Measured
from .report import FailedPoint, StudyReport, build, references
from .study import ENDED, PointState, PointStatus, StudyPaths, StudyRecord
from .study_request import as_json

SCHEMA = 1
LISTS = ("hosts", "rates")


def study(paths: StudyPaths, record: StudyRecord, statuses: Sequence[PointStatus]) -> StudyReport:
    """Write results.csv and results.json; return what they show.

    Raises SystemFault for what cannot be written; each file is whole, the old one or the new one.
    """
    report = build(
        record.question,
        [each.measured for each in statuses if each.measured],
        references(record.references),
        [
            FailedPoint(
                each.paths.root.name if each.paths else each.point.key, each.reason, each.kind
            )
            for each in statuses
            if each.state is PointState.FAILED
        ],
        sum(each.state not in ENDED for each in statuses),
        record.command,
    )
    text = json.dumps(json_value(report), indent=2, ensure_ascii=False, allow_nan=False)
    with disk_space.writing(paths.csv):
        atomic.write_text(paths.csv, csv_text(report))
        atomic.write_text(paths.json, text + "\n")
    return report


def csv_text(report: StudyReport) -> str:
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


def json_value(report: StudyReport) -> dict[str, Any]:
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
