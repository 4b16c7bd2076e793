"""Commands about runs that exist."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import click

from .. import config, jobs, watch
from ..errors import NotFound
from ..jobs import Job, JobPaths, JobState
from ..schedulers import SCHEDULERS
from . import show, stopped

HELP = {"help_option_names": ["-h", "--help"]}


def _of_runs(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--runs-dir", metavar="DIR", help="folder for the runs (default: ./runs)")(
        function
    )


def _of_a_job(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("job", required=False)(_of_runs(function))


def _json(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="print JSON")(function)


def _folder(runs_dir: str | None) -> Path:
    return Path(config.load({"runs-dir": runs_dir}, os.environ).get("runs-dir")).absolute()


def _find(job: str | None, runs_dir: str | None) -> tuple[JobPaths, Job]:
    return jobs.find(job, _folder(runs_dir))


def _facts(paths: JobPaths, job: Job, status: watch.Status) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": status.state.name,
        "reason": status.reason,
        "restarts": status.restart,
        "exit_code": status.exit_code,
        "submitted": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted)),
        "folder": str(paths.root),
    }


@click.command("status", context_settings=HELP, epilog="Example: runner status 42")
@_of_a_job
@_json
def status_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Show the state of JOB: a number, a run's name or folder; the last run by default."""
    paths, found = _find(job, runs_dir)
    status = watch.status(paths, found)
    facts = _facts(paths, found, status)
    who = watch.culprit(paths, found) if status.state not in _WELL else None
    if status.state == JobState.STOPPED:
        facts.update(saved_step=jobs.saved_step(paths), go_on=stopped.command(paths, found))
    if as_json:
        show.print_json({**facts, "first_to_fail": who})
    else:
        show.result_table({**facts, **({"first to fail": who} if who else {})})


_WELL = (JobState.PENDING, JobState.RUNNING, JobState.COMPLETED, JobState.STOPPED)


@click.command("list", context_settings=HELP, epilog="Example: runner list --json")
@_of_runs
@_json
def list_command(runs_dir: str | None, as_json: bool) -> None:
    """List the runs, oldest first."""
    runs = jobs.all_runs(_folder(runs_dir))
    pairs = zip(runs, watch.statuses(runs))
    rows = [_facts(paths, job, status) for (paths, job), status in pairs]
    if as_json:
        show.print_json(rows)
    else:
        columns = ["id", "name", "state", "exit_code", "submitted", "reason"]
        show.table([["" if r[c] is None else r[c] for c in columns] for r in rows], columns)


@click.command("logs", context_settings=HELP, epilog="Example: runner logs --follow --rank 0 42")
@_of_a_job
@click.option("-f", "--follow", is_flag=True, help="go on until the job ends")
@click.option("--rank", type=int, help="lines of this rank only")
def logs_command(job: str | None, runs_dir: str | None, follow: bool, rank: int | None) -> None:
    """Show the merged log of JOB, each line as `rank@host | ...`."""
    paths, found = _find(job, runs_dir)
    if follow:
        sys.exit(show.ending(paths, found, show.follow(paths, found, rank)))
    if not Path(found.log).is_file():
        raise NotFound(f"job {found.id} has no log yet", f"{found.log} does not exist")
    log = watch.Log(Path(found.log))
    for line in [*log.new_lines(), *log.last_line()]:
        if watch.concerns(line, rank):
            click.echo(line)


@click.command("wait", context_settings=HELP, epilog="Example: runner wait 42 && echo well")
@_of_a_job
def wait_command(job: str | None, runs_dir: str | None) -> None:
    """Wait until JOB has ended; the exit code is the job's own, or one of the documented."""
    paths, found = _find(job, runs_dir)
    *_, status = watch.until_end(paths, found)
    sys.exit(show.ending(paths, found, status))


@click.command("cancel", context_settings=HELP, epilog="Example: runner cancel 42")
@_of_a_job
def cancel_command(job: str | None, runs_dir: str | None) -> None:
    """Cancel JOB."""
    paths, found = _find(job, runs_dir)
    if watch.status(paths, found).state.ended:
        raise NotFound(f"job {found.id} has ended already", remedy=f"runner status {found.id}")
    SCHEDULERS[found.scheduler].cancel(found.id)
    replace(found, state=JobState.CANCELLED.name).save(paths)
    click.echo(f"job {found.id} cancelled", err=True)


@click.command("result", context_settings=HELP, epilog="Example: runner result --json 42")
@_of_a_job
@_json
def result_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Show what the trainer of JOB wrote in result.json."""
    paths, found = _find(job, runs_dir)
    result = jobs.read_json(paths.result)
    if result is None:
        raise NotFound(
            f"job {found.id} has no result",
            f"{paths.result} does not exist",
            f"runner status {found.id}, runner logs {found.id}",
        )
    show.print_json(result) if as_json else show.result_table(result)
