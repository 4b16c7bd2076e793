"""Commands about the end of a run: wait, cancel, result, explain."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ...core.errors import NotFound, UsageError
from ...core.job_record import Job, JobPaths
from ...core.text import first_few
from ...explain.explanation import Explanation
from ...jobs import job_status, wording
from ...jobs.find import Runs
from ...launching import end
from .. import options, printer
from . import follow, job_end, run_group, status_view

LISTED = 10  # runs that failed for one cause
Explained = Sequence["tuple[Job, Explanation]"]


@click.command("wait", epilog="Example: runner wait 42 && echo well")
@options.job
@options.runs_dir
def wait_command(job: str | None, runs_dir: str | None) -> None:
    """Wait for JOB to end; exit with its exit code or a documented one.

    For a job array it is the first nonzero exit code.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        sys.exit(run_group.wait(meant))
    paths, job_record = meant[0]
    status = follow.waited(paths, job_record)
    if status is None:
        sys.exit(follow.INTERRUPTED)
    job_end.tell_success(job_record, status)
    sys.exit(job_end.ending(paths, job_record, status))


@click.command("cancel", epilog="Example: runner cancel 42")
@options.job
@options.runs_dir
def cancel_command(job: str | None, runs_dir: str | None) -> None:
    """Cancel JOB; the ID of a job array cancels all of its runs.

    Without JOB, the command asks at a terminal whether to cancel the last job.
    """
    meant = options.find_all(job, runs_dir)
    if job is None:
        _confirm(meant)
    options.check_ours(meant)
    if len(meant) > 1:
        run_group.cancel(meant)
        return
    paths, job_record = meant[0]
    if job_status.status(paths, job_record).state.ended:
        raise NotFound(
            f"job {job_record.id} has ended already", remedy=f"runner status {job_record.id}"
        )
    follow.cancel(paths, job_record)


def _confirm(meant: Sequence[tuple[JobPaths, Job]]) -> None:
    """Ask whether to cancel the last job; raise UsageError without a terminal."""
    job = meant[0][1]
    name = job.array or job.id
    what = f"{len(meant)} runs of {name}" if len(meant) > 1 else f"job {name} ({job.name})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("which job?", f"the last one is {what}", f"runner cancel {name}")
    if not click.confirm(f"cancel {what}?", err=True):
        raise click.exceptions.Exit(1)


@click.command("result", epilog="Example: runner result --json 42")
@options.job
@options.runs_dir
@options.sort
@options.as_json
def result_command(job: str | None, runs_dir: str | None, sort: str | None, as_json: bool) -> None:
    """Show the result.json that the trainer of JOB wrote.

    For a job array: one line per run, the best first.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        run_group.show(meant, status_view.statuses(meant), as_json, sort)
        return
    paths, job_record = meant[0]
    result = end.result(paths, job_record)
    printer.print_json(result) if as_json else printer.result_table(job_end.without_use(result))


@click.command("explain", epilog="Example: runner explain 42")
@options.job
@options.runs_dir
@options.as_json
def explain_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Diagnose a failed JOB: cause, evidence, the command that fixes it, and the confidence.

    For a job array, its failed runs are grouped by cause.
    """
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        _explain_array(meant, as_json)
        return
    paths, job_record = meant[0]
    status = job_status.status(paths, job_record)
    explanation = end.explain(paths, job_record, status, printer.Console())
    if as_json:
        printer.print_json(end.explanation_facts(explanation, job_record))
        return
    state = wording.describe(status, job_record.restart_limit)
    click.echo(f"job {job_record.id}: {state}, in {paths.root}")
    click.echo("\n".join(job_end.explanation_lines(explanation, job_record)))


def _explain_array(runs: Runs, as_json: bool) -> None:
    """Print why those runs failed that did, with one scheduler call for all."""
    from ...explain.judge import explain  # 20 ms that the other commands need not pay

    pairs = zip(runs, job_status.statuses(runs))
    failed = [(run, status) for run, status in pairs if status.state not in status_view.WELL]
    explanations = [(job, explain(paths, job, status)) for (paths, job), status in failed]
    if as_json:
        printer.print_json([end.explanation_facts(why, job) for job, why in explanations])
        return
    click.echo(f"{runs[0][1].array}: {len(explanations)} of {len(runs)} runs did not end well")
    for group in _alike(explanations):
        job, why = group[0]
        click.echo("\n".join([_who(group), *job_end.explanation_lines(why, job)]))


def _alike(explanations: Explained) -> list[Explained]:
    """Group by what failed, the most frequent first; one explanation stands for its group."""
    groups: dict[str, list[tuple[Job, Explanation]]] = {}
    for job, why in explanations:
        groups.setdefault(why.name, []).append((job, why))
    return sorted(groups.values(), key=len, reverse=True)


def _who(group: Explained) -> str:
    ids = [job.id for job, _ in group]
    return first_few(ids, LISTED) + ("; of the first:" if len(ids) > 1 else ":")
