"""`runner plan`: every choice with its reason and evidence, or why it cannot work."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from ...core import quoting
from ...core.errors import Refused
from ...core.plan import Caution, Choice, Plan, Refusal
from ...core.remedy import LAUNCH
from ...launching import gather, run_folder, suggest, working_remedies
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

    def remedies(problem: Refusal) -> list[dict[str, Any]]:
        shown = (
            remedy for remedy in problem.remedies if remedy.kind != LAUNCH or remedy in working
        )
        return [suggest.as_json(remedy, here) for remedy in shown]

    def against(caution: Caution) -> list[dict[str, Any]]:
        tried = working_remedies.against(caution, here)
        return [suggest.as_json(remedy, here) for remedy in tried]

    return {
        "works": not made.refusals,
        "remedies": [suggest.as_json(remedy, here) for remedy in working],
        "refusals": [
            {"what": refusal.what, "evidence": refusal.evidence, "remedies": remedies(refusal)}
            for refusal in made.refusals
        ],
        "choices": [asdict(choice) for choice in made.choices],
        "variables": [
            {**asdict(variable), "value": quoting.path(variable.value)}
            for variable in made.variables
        ],
        "warnings": [
            {"what": warning.what, "remedies": against(warning)} for warning in made.warnings
        ],
        "script": run_folder.draft(made).text,
    }


def _print(made: Plan) -> None:
    rows = [[plan_view.label(c), plan_view.value(c), _because(c)] for c in made.choices]
    rows += [[v.name, quoting.path(v.value), v.reason] for v in made.variables]
    printer.table(rows, ["choice", "value", "because"])
    for caution in made.warnings:
        click.echo(f"warning: {plan_view.warning(caution)}")
    for refusal in made.refusals:
        click.echo("\n  ".join(filter(None, (f"refused: {refusal.what}", refusal.evidence))))
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
