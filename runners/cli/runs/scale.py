"""`runner scale`: the options of a study; runs it, continues it, or only writes its report."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...core import locks, signals
from ...core.errors import Refused, SystemFault, UsageError
from ...core.text import count
from ...scale import measure, report, study, study_request
from ...scale.report import FailedPoint, StudyReport
from ...scale.run_study import Drafts, Work
from ...scale.study import PointStatus, StudyPaths, StudyRecord
from ...scale.study_request import OWN
from .. import exit_codes, options, printer
from ..invocation import TrainerCommand, was_given
from . import scale_output

HOW = ("at_once", "dry_run", "as_json")  # options that ask nothing of the study
EXTRA = ("matplotlib>=3.7", "jinja2>=3.1")
INSTALL = shlex.join([sys.executable, "-m", "pip", "install", *EXTRA])
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
    ctx = click.get_current_context()
    if values["render_only"]:
        _refuse_others(ctx, "--render-only", ("render_only", "drop", "reference", "as_json"))
        if missing := _missing_packages():
            what = f"--render-only needs {', '.join(missing)}, which this Python does not have"
            raise Refused(what, "they are not installed by default", INSTALL)
        paths = StudyPaths(Path(values["render_only"]))
        record = _with_changes(ctx, study.load(paths), values)
        study.save(paths, record)
        _show(paths, record, study.statuses(paths, record.question, {}), values["as_json"])
        return
    if values["go_on"]:
        _refuse_others(ctx, "--continue", ("go_on", *HOW, "drop", "reference"))
        paths, record = _stored(ctx, values)
    else:
        paths, record = _requested(trainer, args, values)
    if values["dry_run"]:
        drafts = Drafts(paths, record, printer.Console(), dry_run=True)
        scale_output.plans(record.question, drafts, values["as_json"])
        return
    # All of it before a folder is made.
    study_request.check_epochs(record.question.args, record.question.drop)
    drafts = Drafts(paths, record, printer.Console())
    for warning in [*_may_be_short(record), *drafts.check()]:
        printer.tell(f"warning: {warning}")
    with locks.try_exclusive(paths.lock, f"another runner scale is at work on {paths.root}"):
        drafts.record = study.begin(paths, record)
        sys.exit(_run(drafts, values))


def _may_be_short(record: StudyRecord) -> list[str]:
    """Return a warning if the training may end within the warm-up epochs."""
    steps, drop = study_request.number(record.question.args, "--max-steps"), record.question.drop
    if not steps or not drop:
        return []
    return [
        f"--max-steps {steps[1]} may end in the first {count(drop, 'epoch')}, which warm up and "
        "are not measured; --drop 0 measures them"
    ]


def _missing_packages() -> list[str]:
    names = [each.partition(">")[0] for each in EXTRA]
    return [name for name in names if importlib.util.find_spec(name) is None]


def _draw(report: StudyReport, paths: StudyPaths) -> bool:
    """Write the figures and the page; without the extra packages say what draws them later."""
    if missing := _missing_packages():
        later = shlex.join(["runner", "scale", "--render-only", str(paths.root)])
        printer.tell(
            f"no figures, no page: {', '.join(missing)} not installed\n  {INSTALL}\n  {later}"
        )
        return False
    from ...scale import page

    page.write(report, paths)
    return True


def _refuse_others(ctx: click.Context, option: str, known: Collection[str]) -> None:
    """Refuse options that would have no effect: the study's own command applies."""
    for name, value in ctx.params.items():
        if name not in known and was_given(ctx, name) and value:
            word = name if name in ("trainer", "args") else "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} uses the study's original command; leave out {word}",
                remedy="runner scale --study DIR ..., with the whole command, lets a study grow",
            )


def _stored(ctx: click.Context, values: dict[str, Any]) -> tuple[StudyPaths, StudyRecord]:
    """Return a study as it was asked, and go to where that was."""
    paths = StudyPaths(Path(values["go_on"]).absolute())
    record = _with_changes(ctx, study.load(paths), values)
    try:
        # Its image, its trainer and its runner.toml may be named relative to that folder.
        os.chdir(record.cwd)
    except OSError as error:
        raise SystemFault(
            f"cannot change to {record.cwd}, the working directory of the command", str(error)
        ) from None
    return paths, record


def _with_changes(ctx: click.Context, record: StudyRecord, values: dict[str, Any]) -> StudyRecord:
    """Return it with the options that may change afterwards: warm-up, published results."""
    if values["reference"]:
        report.references(values["reference"])
        record = replace(record, references=values["reference"])
    if was_given(ctx, "drop"):
        record = replace(record, question=replace(record.question, drop=values["drop"]))
    return record


def _requested(
    trainer: str | None, args: tuple[str, ...], values: dict[str, Any]
) -> tuple[StudyPaths, StudyRecord]:
    if not trainer or not values["nodes"]:
        raise UsageError(
            "there is no trainer" if not trainer else "--nodes is not given",
            remedy=f"runner scale --image IMAGE --nodes 1,2,4 {trainer or 'TRAINER'}",
        )
    flags = {
        name: value
        for name, value in options.flags(values).items()
        if name not in OWN and value not in (None, [])
    }
    given = study_request.StudyRequest(
        trainer=trainer,
        args=args,
        sizes=study_request.sizes(values["nodes"]),
        variants=study_request.variants(values["vary"]),
        repeats=values["repeats"],
        strong=values["strong"],
        drop=values["drop"],
        flags=tuple(flags.items()),
    )
    report.references(values["reference"])
    trace = str(flags.get("timeline-filename", ""))
    if "/" in trace:
        raise UsageError(
            f"--timeline-filename {trace} would be one file for all runs",
            remedy="--timeline-filename timeline.json, a name in each run's folder",
        )
    name = flags.get("job-name") or Path(trainer).stem
    folder = Path(values["study"] or os.path.join("studies", name)).absolute()
    return StudyPaths(folder), StudyRecord(
        given, tuple(sys.argv[1:]), os.getcwd(), values["reference"]
    )


def _run(drafts: Drafts, values: dict[str, Any]) -> int:
    paths, work = drafts.paths, Work(drafts, values["at_once"] or 0)
    try:
        statuses = scale_output.follow(work.to_the_end())
    except KeyboardInterrupt as interrupt:
        words = f"jobs in the queue go on. {_how_to_continue(paths)}"
        raise signals.Interrupted(signals.code(interrupt), words) from None
    if not _show(paths, drafts.record, statuses, values["as_json"]).failed:
        return 0
    printer.tell(_how_to_continue(paths))
    return exit_codes.FAULT


def _show(
    paths: StudyPaths, record: StudyRecord, statuses: list[PointStatus], as_json: bool
) -> StudyReport:
    found = report.write(paths, record, statuses)
    scale_output.report(found, as_json)
    if _draw(found, paths) and not as_json:
        click.echo(f"page: {paths.page}")
    if found.failed:
        printer.tell(_next_step(paths, found.failed[0]))
    return found


def _next_step(paths: StudyPaths, failed: FailedPoint) -> str:
    folder = os.path.relpath(paths.root)
    if failed.kind == measure.WARM_UP:
        return f"Measure the warm-up, too: runner scale --render-only {folder} --drop 0"
    if failed.kind == measure.NO_RATE:
        return (
            "The trainer has to write a number such as samples_per_s into result.json in the "
            "folder $OUTPUT_DIR, on rank 0"
        )
    return f"Why: runner explain {os.path.join(folder, 'runs', failed.folder)}"


def _how_to_continue(paths: StudyPaths) -> str:
    return f"Go on: runner scale --continue {os.path.relpath(paths.root)}"
