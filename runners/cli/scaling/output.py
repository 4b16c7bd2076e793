"""What `runner scale` prints: the runs it is going to do, how they stand, the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...scale import number_format
from ...scale.study import Stand, Standing, StudyPaths
from ...scale.study_request import Question
from .. import printer
from .run_drafts import Drafts

if TYPE_CHECKING:  # scipy and numpy take half a second, which a dry run need not pay
    from ...scale.report import Report
    from ...scale.summary import Summary


def tell(text: str) -> None:
    """Print a line about the work, to stderr."""
    click.echo(f"runner: {text}", err=True)


def plans(question: Question, drafts: Drafts, as_json: bool) -> None:
    """Print the runs that a study would have; raise Refused when one of them cannot work."""
    rows = []
    for number, point in enumerate(question.points(), 1):
        made = drafts.plan(point)
        asked = made.spec.resources
        ways = {"controller": made.controller, "runtime": made.runtime}
        trainer = question.trainer_of(point)
        args = " ".join(question.args_of(asked.tasks))
        rows.append(
            {"run": number, "name": point.key, "nodes": asked.nodes, "ranks": asked.tasks, **ways,
             "trainer": trainer, "arguments": args}
        )  # fmt: skip
    if as_json:
        printer.print_json(rows)
    else:
        printer.table([list(row.values()) for row in rows], list(rows[0]))


class Shown:
    """Tells of each run as it ends, and of the number left when it changes."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.counts = ""

    def look(self, standing: Sequence[Standing]) -> None:
        """Print what is new; what had ended before the first look is counted only."""
        first = not self.counts
        for each in standing:
            if each.stand in (Stand.MEASURED, Stand.FAILED) and each.paths:
                if each.paths.root.name not in self.ended and not first:
                    click.echo(_result(each), err=True)
                self.ended.add(each.paths.root.name)
        counts = _counts(standing)
        if counts != self.counts:
            tell(counts)
        self.counts = counts


def _result(each: Standing) -> str:
    name = each.paths.root.name if each.paths else each.point.key
    if each.measured is None:
        return f"  {name}  failed: {each.reason.splitlines()[0]}"
    run = each.measured
    epoch = f", an epoch {number_format.seconds(run.epoch_seconds)}" if run.epoch_seconds else ""
    return f"  {name}  {number_format.number(run.rate)} {run.unit}/s{epoch}"


def _counts(standing: Sequence[Standing]) -> str:
    found = Counter(each.stand for each in standing)
    parts = [f"{found[stand]} {stand.value}" for stand in Stand if found[stand]]
    return f"{len(standing)} runs: " + ", ".join(reversed(parts))


def report(report: Report, paths: StudyPaths, as_json: bool) -> None:
    """Print the results: all of them as JSON, or the points as a table and the warnings."""
    if as_json:
        from ...scale import tables

        printer.print_json(tables.json_value(report))
        return
    if report.points:
        names = ["nodes", "ranks", "n", f"{report.unit}/s", "speed-up", "efficiency", "epoch",
                 "start-up"]  # fmt: skip
        printer.table([_row(report, point) for point in report.points], names)
    for each in report.cautions:
        click.echo(f"! {each.text}")
    for failed in report.failed:
        click.echo(f"failed: {failed.folder}: {failed.reason.splitlines()[0]}")
    click.echo(f"page: {paths.page}")


def _row(report: Report, point: Summary) -> list[Any]:
    return [
        report.name_of(point),
        point.ranks,
        point.rate.n,
        number_format.estimate(point.rate),
        "1" if point.base else number_format.estimate(point.speed_up),
        "100 %" if point.base else number_format.estimate(point.efficiency, share=True),
        number_format.seconds(point.epoch_seconds.value if point.epoch_seconds else None),
        number_format.seconds(point.launch_seconds.value if point.launch_seconds else None),
    ]
