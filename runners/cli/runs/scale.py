"""`runner scale`: the options of a study; runs it, continues it, or only writes its results."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import click

from ...core.errors import RunnerError, UsageError
from ...scale import run_study, study_request
from ...scale.run_study import StudyOrder
from ...scale.study import StudyChanges
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
        scale_output.warn(warnings)
        scale_output.plans(planned, values["as_json"])
        return
    failed = scale_output.show(run_study.run(order, printer.Console()), values["as_json"])
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
    question, words = _question(trainer, args, values), tuple(sys.argv[1:])
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


def _question(trainer: str | None, args: tuple[str, ...], values: dict[str, Any]) -> StudyRequest:
    if not trainer or not values["nodes"]:
        raise UsageError(
            "there is no trainer" if not trainer else "--nodes is not given",
            remedy=f"runner scale --image IMAGE --nodes 1,2,4 {trainer or 'TRAINER'}",
            id="trainer-not-given" if not trainer else "nodes-not-given",
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
