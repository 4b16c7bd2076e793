"""`runner plan`: every choice with its reason and evidence, or why it cannot work."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from ...core import diagnosis, quoting
from ...core.errors import Refused
from ...core.plan import Choice, Plan
from ...launching import gather, plan_document, working_remedies
from ...settings import suggest
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import plan_summary

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
        printer.print_json(plan_document.document(made, invocation.command_line()))
    else:
        _print(made)
    if made.refusals:
        sys.exit(Refused.exit_code)


def _print(made: Plan) -> None:
    rows = [[plan_summary.label(c), plan_summary.value(c), _because(c)] for c in made.choices]
    rows += [[v.name, quoting.path(v.value), v.reason] for v in made.variables]
    printer.table(rows, ["choice", "value", "because"])
    for warning in made.warnings:
        click.echo(f"warning: {plan_summary.warning(warning)}")
    for refusal in made.refusals:
        alone = replace(refusal, remedies=())  # those of all together follow
        click.echo("\n".join(diagnosis.lines(alone, mark="refused: ")))
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
