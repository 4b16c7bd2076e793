"""What `runner scale` prints: the runs it is going to do, how they stand, the results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from ...core.plan import Plan
from ...scale import measure, number_format
from ...scale.report import FailedPoint, StudyReport, findings
from ...scale.results import json_value
from ...scale.study import ENDED, PointState, PointStatus
from ...scale.study_request import Point, StudyRequest
from ...scale.summary import Summary
from .. import printer


def plans(question: StudyRequest, planned: Sequence[tuple[Point, Plan]], as_json: bool) -> None:
    """Print the runs that a study would have."""
    rows = []
    for number, (point, made) in enumerate(planned, 1):
        resources = made.resources
        ways = {"controller": made.wireup.controller, "runtime": made.launching.runtime}
        trainer = question.trainer_of(point)
        args = " ".join(question.args_of(resources.tasks))
        size = {"nodes": resources.nodes, "ranks": resources.tasks}
        row = {"run": number, "name": point.key, **size, **ways}
        rows.append({**row, "trainer": trainer, "arguments": args})
    printer.json_or_table(as_json, rows, [list(row.values()) for row in rows], list(rows[0]))


def follow(work: Iterator[list[PointStatus]]) -> list[PointStatus]:
    """Tell of each run as it ends, and of the numbers when they change; return how all ended.

    What had ended before the first look is counted only.
    """
    before: list[PointStatus] = []
    for statuses in work:
        known = [each.paths for each in before or statuses if each.state in ENDED]
        for each in statuses:
            if each.state in ENDED and each.paths and each.paths not in known:
                click.echo(_result(each), err=True)
        if _counts(statuses) != _counts(before):
            printer.tell(_counts(statuses))
        before = statuses
    return before


def _result(each: PointStatus) -> str:
    name = each.paths.root.name if each.paths else each.point.key
    if each.measured is None:
        return f"  {name}  failed: {each.reason.splitlines()[0]}"
    run = each.measured
    epoch = f", an epoch {number_format.seconds(run.epoch_seconds)}" if run.epoch_seconds else ""
    return f"  {name}  {number_format.number(run.rate)} {run.unit}/s{epoch}"


def _counts(statuses: Sequence[PointStatus]) -> str:
    counts = Counter(each.state for each in statuses)
    parts = [f"{counts[state]} {state.value}" for state in PointState if counts[state]]
    return f"{len(statuses)} runs: " + ", ".join(reversed(parts))


def report(report: StudyReport, as_json: bool) -> None:
    """Print the results: all of them as JSON, or the points as a table and the warnings."""
    if as_json:
        printer.print_json(json_value(report))
        return
    if report.points:
        rate, spare = f"{report.unit}/s", ("epoch", "start-up", "runs")
        names = ["nodes", "ranks", rate, "speed-up", "efficiency", *spare]
        printer.table([_row(report, point) for point in report.points], names, spare)
    for finding in findings(report):
        click.echo(finding)
    for each in report.cautions:
        click.echo(f"! {each.text}")
    for failed in report.failed:
        click.echo(f"failed: {failed.folder}: {failed.reason.splitlines()[0]}")


def _row(report: StudyReport, point: Summary) -> list[str]:
    """Return a point's numbers; in brackets the limits of the 95 % interval."""
    return [
        report.name_of(point),
        str(point.ranks),
        number_format.estimate(point.rate),
        number_format.number(point.speed_up.value),
        number_format.estimate(point.efficiency, share=True),
        number_format.seconds(point.epoch_seconds.value if point.epoch_seconds else None),
        number_format.seconds(point.launch_seconds.value if point.launch_seconds else None),
        str(point.rate.n),
    ]


def next_step(folder: str, failed: FailedPoint) -> str:
    """Return what to do about a run without a measurement, of the study in a folder."""
    if failed.kind == measure.WARM_UP:
        return f"Measure the warm-up, too: runner scale --render-only {folder} --drop 0"
    if failed.kind == measure.NO_RATE:
        return (
            "The trainer has to write a number such as samples_per_s into result.json in the "
            "folder $OUTPUT_DIR, on rank 0"
        )
    return f"Why: runner explain {os.path.join(folder, 'runs', failed.folder)}"
