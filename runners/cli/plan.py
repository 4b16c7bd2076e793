"""`runner plan`: every choice with its reason and evidence, or why it cannot work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from ..core.model import Caution, Plan, Refusal
from ..core.remedy import Remedy
from ..submit import launch
from . import exit_codes, make_plan, options, plan_view, printer, suggest, typed
from .trainer_command import TrainerCommand

EXAMPLE = """\b
Examples:
  runner plan --image horovod_cpu.sif --nodes 2 torch_mnist
  runner plan --image other.sif -N 2 --controller mpi --json train.py
"""


@click.command("plan", cls=TrainerCommand, epilog=EXAMPLE)
@click.argument("trainer")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@click.option("--json", "as_json", is_flag=True, help="print JSON, the script included")
def plan_command(trainer: str, args: tuple[str, ...], **values: Any) -> None:
    """Show what a launch would choose, why, and what that rests on; nothing is submitted."""
    made = make_plan.make_plan(trainer, args, options.flags(values), dry_run=True)
    if values["as_json"]:
        printer.print_json(as_data(made))
    else:
        _print(made)
    if made.refusals:
        sys.exit(exit_codes.REFUSED)


def as_data(made: Plan) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "works": not made.refusals,
        "refusals": [_refusal(refusal) for refusal in made.refusals],
        "choices": [asdict(choice) for choice in made.choices],
        "variables": [asdict(variable) for variable in made.variables],
        "warnings": [_caution(caution) for caution in made.warnings],
        "script": launch.draft(made).text,
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    remedies = _remedies(refusal.remedies)
    return {"what": refusal.what, "evidence": refusal.evidence, "remedies": remedies}


def _caution(caution: Caution) -> dict[str, Any]:
    return {"what": caution.what, "remedies": _remedies(caution.remedies)}


def _remedies(remedies: Sequence[Remedy]) -> list[dict[str, Any]]:
    here = typed.command_line()
    return [suggest.as_json(remedy, here) for remedy in remedies]


def _print(made: Plan) -> None:
    rows = [
        [plan_view.label(c), plan_view.value(c), _because(c.reason, c.evidence)]
        for c in made.choices
    ]
    rows += [[v.name, v.value, v.reason] for v in made.variables]
    printer.table(rows, ["choice", "value", "because"])
    for caution in made.warnings:
        click.echo(f"warning: {plan_view.warning(caution)}")
    for refusal in made.refusals:
        click.echo("\n  ".join(filter(None, (f"refused: {refusal.what}", refusal.evidence))))
    for remedy in suggest.remedies(made.refusals):
        click.echo(f"try: {suggest.text(remedy, typed.command_line())}")
    if not made.refusals:
        here = "to run it: runner launch with the same words"
        there = "its script: runner launch --dry-run with the same words"
        click.echo(f"this works; {there if made.elsewhere else here}")


def _because(reason: str, evidence: str) -> str:
    return f"{reason} ({evidence})" if evidence else reason
