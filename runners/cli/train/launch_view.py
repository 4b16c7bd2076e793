"""`runner launch` of one job: what it prints, and how it stays with the job until the end."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

import click

from ...core import plan_record, signals
from ...core.job_record import Job, JobPaths
from ...core.plan import Plan
from ...launching import submit
from ...submit.launch import Draft
from .. import invocation, printer
from . import plan_view


@dataclass(frozen=True)
class LaunchOutput:
    """The form of what a launch prints, and whether it waits for the job's end.

    While it waits it is `silent`, or shows the log of `ranks` (None: of all) and says which of them
    lag after `stall_after` seconds without a step (None: as configured).
    """

    as_json: bool
    parsable: bool
    verbose: bool
    waits: bool
    silent: bool
    ranks: Collection[int] | None
    stall_after: int | None


def launch(made: Plan, output: LaunchOutput, dry_run: bool) -> None:
    """Submit the job, or print what would be submitted; wait if so asked."""
    typed = invocation.again()
    if dry_run:
        (draft,) = submit.drafts_of(made, typed)
        _print(draft, output.as_json)
        return
    with signals.held():
        ((draft, job),) = submit.submitted(made, typed)
        _announce(draft, job, output)
    if output.waits:
        sys.exit(_to_the_end(draft.paths, job, output))


def _print(draft: Draft, as_json: bool) -> None:
    """Print what would be submitted."""
    if as_json:
        facts = {"folder": str(draft.paths.root), "script": draft.text}
        printer.print_json({**facts, "plan": plan_record.as_data(draft.plan)})
    else:
        click.echo(draft.text, nl=False)


def _announce(draft: Draft, job: Job, output: LaunchOutput) -> None:
    """Say what was submitted."""
    if output.parsable:
        click.echo(job.id)
    elif not output.as_json:
        plan_view.show(draft.plan, output.verbose)
        click.echo(f"job {job.id} submitted, in {draft.paths.root}", err=True)
        if not output.waits:
            click.echo(f"next: runner logs --follow {job.id}", err=True)
    elif not output.waits:
        printer.print_json({"id": job.id, "folder": str(draft.paths.root), "log": job.log})


def _to_the_end(paths: JobPaths, job: Job, output: LaunchOutput) -> int:
    """Wait for a job's end, or follow it; print how it ended and return the exit code."""
    # What only a launch that waits needs: a dry run starts faster without it.
    from ...launching import end
    from ..runs import follow, job_end

    as_json, quiet = output.as_json, output.parsable
    shown = () if output.silent else output.ranks
    if output.silent:
        status = follow.waited(paths, job)
    else:
        status = follow.to_the_end(paths, job, shown, output.stall_after)
    ended = end.of_job(paths, job, status, explain_all=as_json)
    if output.silent and not (as_json or quiet):
        job_end.tell_success(ended)
    job_end.finish(ended, shown, as_json, quiet)
    return ended.exit_code
