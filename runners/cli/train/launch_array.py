"""`runner launch --array` and `--sweep`: many runs by one command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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
from .launch_view import LaunchOutput

LISTED = 10


def launch(made: Plan, sweep_request: SweepRequest, output: LaunchOutput, dry_run: bool) -> None:
    """Submit all runs that were asked for, or print what would be submitted; wait if so asked."""
    typed = invocation.again()
    if dry_run:
        drafts = submit.drafts_of(made, typed, sweep_request)
        _print(drafts, sweep_request.at_once, output.as_json)
        return
    with signals.held():
        submitted = submit.submitted(made, typed, sweep_request)
        runs = [(draft.paths, job) for draft, job in submitted]
        _announce(made, runs, output)
    if output.waits:
        sys.exit(group_view.wait(runs, output.as_json, output.parsable))


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


def _announce(made: Plan, runs: Runs, output: LaunchOutput) -> None:
    wholes = list(dict.fromkeys(job_array.whole_id(job) for _, job in runs))
    name = runs[0][1].array or runs[0][0].root.name
    if output.parsable:
        click.echo("\n".join(wholes))
    elif output.as_json:
        listed = [group_view.facts(*run) for run in runs]
        if not output.waits:
            printer.print_json({"name": name, "ids": wholes, "runs": listed})
    else:
        plan_view.show(made, output.verbose)
        click.echo(f"job {', '.join(wholes)} submitted: {len(runs)} runs, {name}", err=True)
        lines = [
            f"{job.id}  {paths.root}  {status_view.varied(job.varied)}".rstrip()
            for paths, job in runs
        ]
        click.echo("  " + first_few(lines, LISTED, "\n  "), err=True)
        if not output.waits:
            click.echo(f"next: runner status {name}", err=True)
