"""What `runner scale` prints: the runs it is going to do, how they stand, the results."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

import click

from ...scale import number_format
from ...scale.drafts import PlannedRun
from ...scale.references import PublishedSeries
from ...scale.report import StudyReport, findings
from ...scale.run_study import StudyCounts, StudyEvent, StudyWarning, StudyWritten
from ...scale.study import PointState, PointStatus
from ...scale.summary import Summary
from ...scale.write_results import INSTALL, json_value
from .. import printer


def plans(planned: Sequence[PlannedRun], as_json: bool) -> None:
    """Print the runs that a study would have."""
    rows = []
    for number, run in enumerate(planned, 1):
        plan = run.plan
        ways = {"controller": plan.wireup.controller, "runtime": plan.launching.runtime}
        size = {"nodes": plan.resources.nodes, "ranks": plan.resources.tasks}
        row = {"run": number, "name": run.point.key, **size, **ways}
        args = " ".join(plan.spec.trainer.args)
        rows.append({**row, "trainer": run.trainer, "arguments": args})
    printer.json_or_table(as_json, rows, [list(row.values()) for row in rows], list(rows[0]))


def warn(warnings: Iterable[StudyWarning]) -> None:
    """Print what may be wrong with a study, before its runs."""
    for warning in warnings:
        printer.tell(f"warning: {warning.text}")


def show(events: Iterable[StudyEvent], as_json: bool) -> bool:
    """Print what is new of a study, and its results; return whether runs have no measurement."""
    failed = False
    for event in events:
        if isinstance(event, StudyWarning):
            warn([event])
        elif isinstance(event, PointStatus):
            click.echo(_result(event), err=True)
        elif isinstance(event, StudyCounts):
            printer.tell(_counts(event.states))
        elif isinstance(event, StudyReport):
            failed = bool(event.failed)
            _report(event, as_json)
        else:
            _written(event, as_json)
    return failed


def _result(status: PointStatus) -> str:
    name = status.paths.root.name if status.paths else status.point.key
    if status.measured is None:
        return f"  {name}  failed: {status.reason.splitlines()[0]}"
    run = status.measured
    epoch = f", an epoch {number_format.seconds(run.epoch_seconds)}" if run.epoch_seconds else ""
    return f"  {name}  {number_format.number(run.rate)} {run.unit}/s{epoch}"


def _counts(states: Mapping[PointState, int]) -> str:
    parts = [f"{states[state]} {state.value}" for state in PointState if states[state]]
    return f"{sum(states.values())} runs: " + ", ".join(reversed(parts))


def _report(report: StudyReport, as_json: bool) -> None:
    """Print the results: all of them as JSON, or the points as a table and the warnings."""
    if as_json:
        printer.print_json(json_value(report))
        return
    if report.points:
        rate, spare = f"{report.unit}/s", ("epoch", "start-up", "runs")
        names = ["nodes", "ranks", rate, "speed-up", "efficiency", *spare]
        rows = [_row(report, point) for point in report.points]
        published = [row for series in report.references for row in _published(series)]
        printer.table(rows + published, names, spare)
    for series in report.references:
        doubt = f"; {series.doubt}" if series.doubt else ""
        click.echo(f"{series.name}: {series.title}; {series.source}{doubt}")
    for finding in findings(report):
        click.echo(finding)
    for caution in report.cautions:
        click.echo(f"! {caution.what}")
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


def _published(series: PublishedSeries) -> list[list[str]]:
    """Return the rows of published results, which tell no rate and perhaps no time of an epoch."""
    rows = []
    epochs = () if series.total else series.seconds
    for ranks, share, epoch in zip_longest(series.ranks, series.efficiency, epochs):
        speed_up = number_format.number(share * ranks / series.ranks[0])
        numbers = [speed_up, number_format.percent(share), number_format.seconds(epoch)]
        rows.append([series.name, str(ranks), "-", *numbers, "-", "-"])
    return rows


def _written(event: StudyWritten, as_json: bool) -> None:
    """Print where the results are, how to get a drawing of them, and what to do next."""
    if not event.drawn:
        later = shlex.join(["runner", "scale", "--render-only", str(event.paths.root)])
        printer.tell(f"no drawing: matplotlib is not installed\n  {INSTALL}\n  {later}")
    if not as_json:
        click.echo(f"results: {event.paths.root}")
    for step in event.next_steps:
        printer.tell(step)
