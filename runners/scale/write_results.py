"""Writes a study's results: results.csv, results.json, and with matplotlib a drawing."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from ..core import atomic, diagnosis, disk_space
from ..core.errors import Refused
from . import measure, study
from .cautions import StudyCaution
from .measure import Measured
from .references import references
from .report import FailedPoint, StudyReport, build
from .study import ENDED, PointState, PointStatus, StudyChanges, StudyPaths, StudyRecord
from .study_request import as_json

SCHEMA = 2  # of results.json
LISTS = ("hosts", "rates")
EXTRA = "matplotlib>=3.7"
INSTALL = shlex.join([sys.executable, "-m", "pip", "install", EXTRA])


def write(paths: StudyPaths, record: StudyRecord, statuses: Sequence[PointStatus]) -> StudyReport:
    """Write results.csv and results.json of a study; return what they show.

    Raises SystemFault for what cannot be written; each file is whole, the old one or the new one.
    """
    report = _report(record, statuses)
    text = json.dumps(json_value(report), indent=2, ensure_ascii=False, allow_nan=False)
    with disk_space.writing(paths.csv):
        atomic.write_text(paths.csv, csv_text(report))
        atomic.write_text(paths.json, text + "\n")
    return report


def draw(report: StudyReport, paths: StudyPaths) -> bool:
    """Draw a study that has measurements; return False where matplotlib is missing.

    Raises SystemFault as `write`.
    """
    if not can_draw():
        return False
    if report.points:
        from . import plot

        plot.write(report, paths.png)
    return True


def write_again(paths: StudyPaths, changes: StudyChanges) -> StudyReport:
    """Write the tables of a study that is there, without running anything.

    Raises Refused where it could not be drawn, and as `study.load`.
    """
    if not can_draw():
        what = "--render-only needs matplotlib, which this Python does not have"
        raise Refused(what, "it is not installed by default", INSTALL, id="matplotlib-missing")
    record = study.changed(study.load(paths), changes)
    study.save(paths, record)
    return write(paths, record, study.statuses(paths, record.question, {}))


def can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def _report(record: StudyRecord, statuses: Sequence[PointStatus]) -> StudyReport:
    return build(
        record.question,
        [status.measured for status in statuses if status.measured],
        references(record.references),
        [
            FailedPoint(
                status.paths.root.name if status.paths else status.point.key,
                status.reason,
                status.kind,
            )
            for status in statuses
            if status.state is PointState.FAILED
        ],
        sum(status.state not in ENDED for status in statuses),
        record.command,
    )


def csv_text(report: StudyReport) -> str:
    """Return results.csv (RFC 4180, but with plain line ends).

    A list is in one cell, its parts with blanks between.
    """
    text = io.StringIO()
    columns = [field.name for field in fields(Measured) if field.name != "versions"]
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
        "comparisons": [asdict(comparison) for comparison in report.comparisons],
        "diagnoses": [_caution(caution) for caution in report.cautions],
        "references": [asdict(reference) for reference in report.references],
        "failed": [asdict(failure) for failure in report.failed],
        "waiting": report.waiting,
        "runs": [asdict(run) for run in report.runs],
    }


def _caution(caution: StudyCaution) -> dict[str, Any]:
    point = {"variant": caution.variant, "nodes": caution.nodes, "ranks": caution.ranks}
    return {**diagnosis.as_data(caution, asdict), **point}


def next_step(paths: StudyPaths, failed: FailedPoint) -> str:
    """Return what to do about a run of a study that has no measurement."""
    folder = os.path.relpath(paths.root)
    if failed.kind == measure.WARM_UP:
        return f"Measure the warm-up, too: runner scale --render-only {folder} --drop 0"
    if failed.kind == measure.NO_RATE:
        return (
            "The trainer has to write a number such as samples_per_s into result.json in the "
            "folder $OUTPUT_DIR, on rank 0"
        )
    return f"Why: runner explain {os.path.join(folder, 'runs', failed.folder)}"
