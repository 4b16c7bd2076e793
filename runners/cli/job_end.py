"""How a job ended: its explanation and its result are printed, and its exit code is chosen."""

from __future__ import annotations

import click

from ..core import files
from ..core.job_record import Job, JobPaths, JobState
from ..explain import read_facts
from ..explain.explanation import Explanation
from ..jobs.job_status import Status
from . import exit_codes, explanation_view, printer, resume_hint


def ending(paths: JobPaths, job: Job, status: Status) -> int:
    """Print how a job ended, to stderr; return the exit code for it."""
    code = exit_code(paths, job, status)
    if status.state == JobState.STOPPED:
        for line in resume_hint.told(paths, job, status):
            click.echo(line, err=True)
    elif code:
        text = f"runner: job {job.id} ended: {printer.describe(status)}, exit code {code}"
        click.echo(text, err=True)
        for line in explanation_view.lines(_why(paths, job, status), job):
            click.echo(line, err=True)
        click.echo(f"  log: {job.log} (all ranks: runner logs --all {job.id})", err=True)
    return code


def _why(paths: JobPaths, job: Job, status: Status) -> Explanation:
    from ..explain.judge import explain  # its signatures cost 20 ms, which a good end need not pay

    return explain(paths, job, status)


def exit_code(paths: JobPaths, job: Job, status: Status) -> int:
    """Return the exit code for a job that has ended: of a failed one its first rank's."""
    failed = status.state == JobState.FAILED
    return exit_codes.of_job(status, read_facts.exit_code(paths, job) if failed else None)


def finish(
    paths: JobPaths, job: Job, status: Status, as_json: bool = False, quiet: bool = False
) -> int:
    """Print the ending and the result of a job that was waited for; return the exit code."""
    code = ending(paths, job, status)
    result = files.read_json(paths.result)
    if as_json:
        value = {"id": job.id, "folder": str(paths.root), "state": status.state.name}
        why = explanation_view.facts(_why(paths, job, status), job) if code else None
        printer.print_json({**value, "exit_code": code, "explanation": why, "result": result})
    elif result is not None and not quiet:
        # What was asked for is known to who is looking; `runner result` shows that too.
        printer.result_table({name: item for name, item in result.items() if name != "arguments"})
    return code
