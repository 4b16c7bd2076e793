"""`runner launch --array` and `--sweep`: many runs by one command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ...core import plan_record, signals
from ...core.plan import Plan
from ...core.text import first_few
from ...jobs.find import Runs
from ...launching import submit
from ...settings import sweep
from ...settings.sweep import SweepRequest
from ...submit import job_array
from ...submit.launch import Draft
from .. import invocation, printer
from ..runs import group_view, status_view
from . import plan_view

LISTED = 10


def launch(made: Plan, sweep_request: SweepRequest, values: dict[str, Any]) -> None:
    """Submit all runs that were asked for, or print what would be submitted; wait if so asked.

    Of `values`, the command's, `waits` is whether to wait.
    """
    if values["dry_run"]:
        _print(
            submit.drafts_of(made, sweep_request.variants, invocation.again()),
            sweep_request.at_once,
            values["as_json"],
        )
        return
    _warn_of_shared_files(made)
    with signals.held():
        drafts, submitted = submit.several(made, sweep_request, invocation.again())
        runs = [(draft.paths, job) for draft, job in zip(drafts, submitted)]
        _announce(made, runs, values)
    if values["waits"]:
        sys.exit(group_view.wait(runs, values["as_json"], values["parsable"]))


def _warn_of_shared_files(made: Plan) -> None:
    """Say that the runs of a script of one's own have one working folder, if it seems not to know.

    A packaged trainer, and one that names OUTPUT_DIR, writes into its run's own folder.
    """
    file = made.spec.trainer.file
    if file is None or made.spec.trainer.uses_recipes or file.suffix != ".py":
        return
    if "OUTPUT_DIR" not in file.read_text(encoding="utf-8", errors="replace"):
        printer.tell(
            f"warning: all runs work in {os.getcwd()}, where {file.name} may overwrite one run's "
            "files with another's\n"
            '  try: write below os.environ["OUTPUT_DIR"], the folder of each run, checkpoints and '
            "result.json too"
        )


def _print(drafts: Sequence[Draft], at_once: int | None, as_json: bool) -> None:
    """Print what would be submitted, and the script of the first run; the others have their own."""
    batches = job_array.batches(drafts, at_once)
    if as_json:
        listed = [{"folder": str(d.paths.root), "script": d.text} for d in drafts]
        scripts = [batch.text for batch in batches if batch.array]
        chosen = plan_record.as_data(drafts[0].plan)
        printer.print_json({"submitted": scripts, "runs": listed, "plan": chosen})
        return
    for batch in batches:
        if batch.array:
            click.echo(f"# ==> {batch.array.script} <==\n{batch.text}")
    click.echo(f"# ==> {drafts[0].paths.script} <==\n{drafts[0].text}")
    for draft in drafts[1:]:
        varied = status_view.varied(draft.varied) or f"{sweep.TASK}={draft.task}"
        click.echo(f"# ==> {draft.paths.script}: the same with {varied} <==")


def _announce(made: Plan, runs: Runs, values: dict[str, Any]) -> None:
    wholes = list(dict.fromkeys(job_array.whole_id(job) for _, job in runs))
    name = runs[0][1].array or runs[0][0].root.name
    if values["parsable"]:
        click.echo("\n".join(wholes))
    elif values["as_json"]:
        listed = [group_view.facts(*run) for run in runs]
        if not values["waits"]:
            printer.print_json({"name": name, "ids": wholes, "runs": listed})
    else:
        plan_view.show(made, values["verbose"])
        click.echo(f"job {', '.join(wholes)} submitted: {len(runs)} runs, {name}", err=True)
        lines = [
            f"{job.id}  {paths.root}  {status_view.varied(job.varied)}".rstrip()
            for paths, job in runs
        ]
        click.echo("  " + first_few(lines, LISTED, "\n  "), err=True)
        if not values["waits"]:
            click.echo(f"next: runner status {name}", err=True)
