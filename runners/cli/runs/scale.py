"""`runner scale`: runs a study, continues it, or only writes its results; prints how it stands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import click

from ...core import diagnosis
from ...core.errors import RunnerError, UsageError
from ...scale import number_format, run_study, study_request
from ...scale.drafts import PlannedRun
from ...scale.references import PublishedSeries
from ...scale.report import StudyReport, findings
from ...scale.run_study import StudyCounts, StudyEvent, StudyOrder, StudyWarning, StudyWritten
from ...scale.study import PointState, PointStatus, StudyChanges
from ...scale.study_request import OWN
from ...scale.summary import Summary
from ...scale.write_results import INSTALL, json_value
from .. import options, printer
from ..invocation import TrainerCommand, was_given

AS_GIVEN = ("repeats", "strong", "drop")  # fields of the request
HOW = ("at_once", "dry_run", "as_json")  # options that ask nothing of the study
EXAMPLE = """\b
Examples:
  runner scale --image horovod_gpu.sif --gpus-per-node 4 --nodes 1,2,4,8 torch_resnet -- --epochs 5
  runner scale --image horovod_cpu.sif --nodes 1,2 --vary controller=gloo,mpi torch_mnist
  runner scale --continue studies/torch_mnist
  runner scale --render-only studies/torch_mnist --reference thetagpu-ddp
"""


@click.command("scale", cls=TrainerCommand, epilog=EXAMPLE)
@click.argument("trainer", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-N", "--nodes", metavar="N,N,...", help="sizes: nodes, or nodes x ranks on each: 2x4"
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="runs per size and variant",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME=V1,V2",
    help="compare values of a setting, of `trainer`, or of its `exchange`; V+NAME=W also sets NAME "
    "for value V",
)
@click.option(
    "--strong/--weak",
    help="strong: constant global batch size (--batch-size is then of all ranks); "
    "weak: constant batch size per rank (default)",
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="N",
    help="maximum number of runs in the queue (default: all)",
)
@click.option(
    "--drop",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="warm-up epochs to leave out",
)
@click.option(
    "--reference",
    multiple=True,
    metavar="NAME",
    help="published results to compare with; all: every one",
)
@click.option("--study", metavar="DIR", help="folder of the study (default: studies/TRAINER)")
@click.option(
    "--continue", "go_on", metavar="DIR", help="continue a study with its original command"
)
@click.option(
    "--render-only", metavar="DIR", help="write a study's tables and drawing again; run nothing"
)
@click.option("--dry-run", "--dryrun", is_flag=True, help="list the runs and stop")
@click.option("--json", "as_json", is_flag=True, help="print results.json")
@options.without(OWN)
def scale_command(trainer: str | None, args: tuple[str, ...], **values: Any) -> None:
    """Measure how TRAINER scales with the number of nodes; write tables and a drawing.

    Repeat the same command to continue an interrupted study; finished runs are not repeated. With
    more nodes, repeats or values the study is extended.
    """
    order = _order(trainer, args, values)
    if values["dry_run"]:
        planned, warnings = run_study.planned(order, printer.Console())
        _warn(warnings)
        _plans(planned, values["as_json"])
        return
    failed = _show(run_study.run(order, printer.Console()), values["as_json"])
    sys.exit(RunnerError.exit_code if failed and not order.render_only else 0)


def _order(trainer: str | None, args: tuple[str, ...], values: dict[str, Any]) -> StudyOrder:
    changes = StudyChanges(
        values["drop"] if was_given(click.get_current_context(), "drop") else None,
        values["reference"],
    )
    if folder := values["render_only"]:
        _refuse_others("--render-only", ("render_only", "drop", "reference", "as_json"))
        return StudyOrder(None, folder, changes, render_only=True)
    at_once = values["at_once"] or 0
    if folder := values["go_on"]:
        _refuse_others("--continue", ("go_on", *HOW, "drop", "reference"))
        return StudyOrder(None, folder, changes, at_once=at_once)
    flags, more = options.flags(values), {name: values[name] for name in AS_GIVEN}
    question = study_request.asked(trainer, args, values["nodes"], values["vary"], flags, **more)
    words = tuple(sys.argv[1:])
    return StudyOrder(question, values["study"], changes, words, at_once=at_once)


def _refuse_others(option: str, known: Collection[str]) -> None:
    """Refuse options that would have no effect: the study's own command applies."""
    ctx = click.get_current_context()
    for name, value in ctx.params.items():
        if name not in known and was_given(ctx, name) and value:
            word = name if name in ("trainer", "args") else "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} uses the study's original command; leave out {word}",
                remedy="runner scale --study DIR ..., with the whole command, lets a study grow",
                id="study-options-changed",
            )


def _plans(planned: Sequence[PlannedRun], as_json: bool) -> None:
    """Print the runs that a study would have."""
    rows = [{"run": number, **run.facts} for number, run in enumerate(planned, 1)]
    printer.json_or_table(as_json, rows, [list(row.values()) for row in rows], list(rows[0]))


def _warn(warnings: Iterable[StudyWarning]) -> None:
    """Print what may be wrong with a study, before its runs."""
    for warning in warnings:
        printer.tell(f"warning: {warning.text}")


def _show(events: Iterable[StudyEvent], as_json: bool) -> bool:
    """Print what is new of a study, and its results; return whether runs have no measurement."""
    failed = False
    for event in events:
        if isinstance(event, StudyWarning):
            _warn([event])
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
        click.echo("\n".join(diagnosis.lines(caution, mark="! ")))
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
