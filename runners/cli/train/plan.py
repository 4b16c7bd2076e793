"""`runner plan`: every choice with its reason and evidence, or why it cannot work."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import click

from ...core import diagnosis, quoting
from ...core.command_line import CommandLine
from ...core.diagnosis import Diagnosis
from ...core.errors import Refused
from ...core.plan import Choice, Plan
from ...core.remedy import LAUNCH, Remedy
from ...launching import gather, run_folder, working_remedies
from ...settings import suggest
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import plan_view

EXAMPLE = """\b
Examples:
  runner plan --image horovod_cpu.sif --nodes 2 torch_mnist
  runner plan --image other.sif -N 2 --controller mpi --json train.py
"""


@click.command("plan", cls=TrainerCommand, epilog=EXAMPLE)
@click.argument("trainer", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@click.option("--json", "as_json", is_flag=True, help="print JSON, including the job script")
def plan_command(trainer: str | None, args: tuple[str, ...], **values: Any) -> None:
    """Show the decisions of a launch, their reasons and evidence; submit nothing."""
    made = gather.plan(trainer or "", args, options.flags(values), True, printer.Console())
    if values["as_json"]:
        printer.print_json(_as_data(made))
    else:
        _print(made)
    if made.refusals:
        sys.exit(Refused.exit_code)


def _as_data(made: Plan) -> dict[str, Any]:
    here = invocation.command_line()
    working = working_remedies.instead(made, here)
    typed = partial(suggest.as_json, typed=here)
    return diagnosis.document(
        [diagnosis.as_data(found, typed) for found in _found(made, working, here)],
        works=not made.refusals,
        remedies=[typed(remedy) for remedy in working],
        choices=[asdict(choice) for choice in made.choices],
        variables=[
            {**asdict(variable), "value": quoting.path(variable.value)}
            for variable in made.variables
        ],
        script=run_folder.draft(made).text,
    )


def _found(made: Plan, working: Collection[Remedy], here: CommandLine) -> Iterator[Diagnosis]:
    """Yield why a plan is refused and what it warns of, each with what works of its remedies."""
    for refusal in made.refusals:
        yield replace(
            refusal,
            remedies=tuple(
                remedy for remedy in refusal.remedies if remedy.kind != LAUNCH or remedy in working
            ),
        )
    for warning in made.warnings:
        yield replace(warning, remedies=tuple(working_remedies.against(warning, here)))


def _print(made: Plan) -> None:
    rows = [[plan_view.label(c), plan_view.value(c), _because(c)] for c in made.choices]
    rows += [[v.name, quoting.path(v.value), v.reason] for v in made.variables]
    printer.table(rows, ["choice", "value", "because"])
    for warning in made.warnings:
        click.echo(f"warning: {plan_view.warning(warning)}")
    for refusal in made.refusals:
        alone = replace(refusal, remedies=())  # those of all together follow
        click.echo("refused: " + "\n".join(diagnosis.lines(alone)))
    here = invocation.command_line()
    for remedy in working_remedies.instead(made, here):
        click.echo(f"try: {suggest.text(remedy, here)}")
    if not made.refusals:
        first = f"{made.spec.image.unbuilt}, then " if made.spec.image.unbuilt else ""
        next_step = f"to run it: {first}runner launch"
        if made.remote_site:
            next_step = "its script: runner launch --dry-run"
        click.echo(f"this works; {next_step} with the same words")


def _because(choice: Choice) -> str:
    return f"{choice.reason} ({choice.evidence})" if choice.evidence else choice.reason
