"""What a launch prints, and how it stays with its job until the end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import click

from ...core import plan_record
from ...core.job_record import Job, JobPaths
from ...submit.launch import Draft
from .. import printer
from . import plan_view


@dataclass(frozen=True)
class LaunchOutput:
    """The form of what a launch prints, and whether it waits for the job's end.

    While it waits it is `silent`, or shows the log of `ranks` (None: of all).
    """

    as_json: bool
    parsable: bool
    verbose: bool
    waits: bool
    silent: bool
    ranks: Collection[int] | None


def print_draft(draft: Draft, as_json: bool) -> None:
    """Print what would be submitted."""
    if as_json:
        facts = {"folder": str(draft.paths.root), "script": draft.text}
        printer.print_json({**facts, "plan": plan_record.as_data(draft.plan)})
    else:
        click.echo(draft.text, nl=False)


def announce(draft: Draft, job: Job, output: LaunchOutput) -> None:
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


def to_the_end(paths: JobPaths, job: Job, output: LaunchOutput, stall_after: int | None) -> int:
    """Wait for a job's end, or follow it; print how it ended and return the exit code."""
    # What only a launch that waits needs: a dry run starts faster without it.
    from ..runs import follow, job_end

    as_json, quiet = output.as_json, output.parsable
    shown = () if output.silent else output.ranks
    if output.silent:
        status = follow.waited(paths, job)
        if status and not (as_json or quiet):
            job_end.tell_success(job, status)
    else:
        status = follow.to_the_end(paths, job, shown, stall_after)
    if status is None:
        return follow.INTERRUPTED
    return job_end.finish(paths, job, status, shown, as_json=as_json, quiet=quiet)
