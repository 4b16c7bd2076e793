"""Writes all that a study shows, from its folder. Needs the extra packages."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..core.errors import SystemFault
from . import figure, page, references, tables
from .report import Failed, Report, build
from .study import PointState, PointStatus, StudyPaths, StudyRecord


def study(paths: StudyPaths, asked: StudyRecord, statuses: Sequence[PointStatus]) -> Report:
    """Write results.csv, results.json, the drawings and the page; return what they show.

    Raises SystemFault for what cannot be written; each file is whole, the old one or the new one.
    """
    report = build(
        asked.question,
        [each.measured for each in statuses if each.measured],
        references.chosen(asked.references),
        [_failed(each) for each in statuses if each.state is PointState.FAILED],
        sum(each.state in (PointState.TO_DO, PointState.OPEN) for each in statuses),
        asked.command,
    )
    try:
        tables.write(report, paths.csv, paths.json)
        if report.points:
            figure.write(report, paths.png, paths.svg)
        page.write(report, paths.page, time.time())
    except OSError as error:
        raise SystemFault(f"cannot write into {paths.root}", str(error)) from None
    return report


def _failed(each: PointStatus) -> Failed:
    folder = each.paths.root.name if each.paths else each.point.key
    return Failed(folder, each.reason, each.kind)
