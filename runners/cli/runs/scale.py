"""`runner scale`: the options of a study; runs it, continues it, or only writes its report."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from ...core import signals
from ...core.errors import RunnerError, UsageError
from ...scale import results, study, study_request
from ...scale.report import StudyReport
from ...scale.results import INSTALL
from ...scale.run_study import Drafts, Work
from ...scale.study import StudyChanges, StudyPaths
from ...scale.study_request import OWN, StudyRequest
from .. import options, printer
from ..invocation import TrainerCommand, was_given
from . import scale_output

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
    help="compare values of a setting, or of `trainer`; V+NAME=W also sets NAME for value V",
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
    "--reference", multiple=True, metavar="NAME", help="published results to draw; all: every one"
)
@click.option("--study", metavar="DIR", help="folder of the study (default: studies/TRAINER)")
@click.option(
    "--continue", "go_on", metavar="DIR", help="continue a study with its original command"
)
@click.option(
    "--render-only", metavar="DIR", help="write a study's tables and report again; run nothing"
)
@click.option("--dry-run", "--dryrun", is_flag=True, help="list the runs and stop")
@click.option("--json", "as_json", is_flag=True, help="print results.json")
@options.without(OWN)
def scale_command(trainer: str | None, args: tuple[str, ...], **values: Any) -> None:
    """Measure how TRAINER scales with the number of nodes; write tables, figures and a report.

    Repeat the same command to continue an interrupted study; finished runs are not repeated. With
    more nodes, repeats or values the study is extended.
    """
    changes = StudyChanges(
        values["drop"] if was_given(click.get_current_context(), "drop") else None,
        values["reference"],
    )
    if values["render_only"]:
        _refuse_others("--render-only", ("render_only", "drop", "reference", "as_json"))
        paths = StudyPaths(Path(values["render_only"]))
        _show(results.write_again(paths, changes), paths, values)
        return
    if values["go_on"]:
        _refuse_others("--continue", ("go_on", *HOW, "drop", "reference"))
        paths, record = study.reopen(values["go_on"], changes)
    else:
        question = _question(trainer, args, values)
        words = tuple(sys.argv[1:])
        paths, record = study.new(question, words, values["reference"], values["study"])
    drafts = Drafts(paths, record, printer.Console(), values["dry_run"])
    if values["dry_run"]:
        scale_output.plans(record.question, drafts.planned(), values["as_json"])
        return
    for warning in drafts.check():
        printer.tell(f"warning: {warning}")
    with drafts.begun():
        sys.exit(_run(drafts, values))


def _refuse_others(option: str, known: Collection[str]) -> None:
    """Refuse options that would have no effect: the study's own command applies."""
    ctx = click.get_current_context()
    for name, value in ctx.params.items():
        if name not in known and was_given(ctx, name) and value:
            word = name if name in ("trainer", "args") else "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} uses the study's original command; leave out {word}",
                remedy="runner scale --study DIR ..., with the whole command, lets a study grow",
            )


def _question(trainer: str | None, args: tuple[str, ...], values: dict[str, Any]) -> StudyRequest:
    if not trainer or not values["nodes"]:
        raise UsageError(
            "there is no trainer" if not trainer else "--nodes is not given",
            remedy=f"runner scale --image IMAGE --nodes 1,2,4 {trainer or 'TRAINER'}",
        )
    flags = options.flags(values).items()
    return StudyRequest(
        trainer=trainer,
        args=args,
        sizes=study_request.sizes(values["nodes"]),
        variants=study_request.variants(values["vary"]),
        repeats=values["repeats"],
        strong=values["strong"],
        drop=values["drop"],
        flags=tuple((n, value) for n, value in flags if n not in OWN and value not in (None, [])),
    )


def _run(drafts: Drafts, values: dict[str, Any]) -> int:
    again = f"Go on: runner scale --continue {os.path.relpath(drafts.paths.root)}"
    with signals.saying(f"jobs in the queue go on. {again}"):
        statuses = scale_output.follow(Work(drafts, values["at_once"] or 0).to_the_end())
    report = results.write(drafts.paths, drafts.record, statuses)
    _show(report, drafts.paths, values)
    if not report.failed:
        return 0
    printer.tell(again)
    return RunnerError.exit_code


def _show(report: StudyReport, paths: StudyPaths, values: dict[str, Any]) -> None:
    scale_output.report(report, values["as_json"])
    folder = os.path.relpath(paths.root)
    if missing := results.write_page(report, paths):
        later = shlex.join(["runner", "scale", "--render-only", str(paths.root)])
        names = ", ".join(missing)
        printer.tell(f"no figures, no page: {names} not installed\n  {INSTALL}\n  {later}")
    elif not values["as_json"]:
        click.echo(f"page: {paths.page}")
    if report.failed:
        printer.tell(scale_output.next_step(folder, report.failed[0]))
