"""Runs that were submitted together: prints how they change, end, and what they reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from ...core import command_signals
from ...core.job_record import JobState, Status
from ...jobs.find_run import Runs
from ...monitoring import run_group, wording
from ...monitoring.run_group import GroupNews, RunResult
from ...scale import ranking
from .. import printer
from . import job_end, runs_table


def wait(runs: Runs, as_json: bool = False, quiet: bool = False) -> int:
    """Wait for the end of all runs, telling of each; return the first code that is not 0."""
    name = runs[0][1].array
    statuses: Sequence[Status] = ()
    try:
        for news in run_group.news(runs):
            statuses = news.statuses
            if not (as_json or quiet):
                _tell(name, news)
    except KeyboardInterrupt as interrupt:
        ways = f"come back: runner wait {name}; end it: runner cancel {name}"
        click.echo(f"\nrunner: left {name}; {ways}", err=True)
        return command_signals.code(interrupt)
    group = run_group.ended(runs, statuses)
    for ended in group.explained:
        job_end.show(ended)
    if group.failed > len(group.explained):
        printer.tell(f"{group.failed} runs did not end well; see: runner status {name}")
    if as_json or not quiet:
        show(run_group.results(runs, statuses), as_json)
    return group.exit_code


def _tell(name: str, news: GroupNews) -> None:
    """Say which runs have ended, and in which states all of them are."""
    for job, status in news.ended:
        subject = f"{job.id} {runs_table.varied(job.varied)}".rstrip()
        printer.tell(f"{subject}: {wording.describe(status, job.requeue_limit)}")
    counts = Counter(status.state for status in news.statuses)
    states = [f"{counts[state]} {state.value}" for state in JobState if counts[state]]
    printer.tell(f"{name}: {', '.join(states)}")


def show(results: Sequence[RunResult], as_json: bool, sort: str | None = None) -> None:
    """Print what all runs have reached; raise UsageError for a `sort` that none of them has."""
    printer.tell_first([run.odd for run in results if run.odd])
    if as_json:
        printer.print_json([run_group.facts(run) for run in results])
    else:
        _table(results, sort)


def _table(results: Sequence[RunResult], sort: str | None) -> None:
    """Print a line for each run: what it was asked, how it stands, what it reached; best first."""
    ranked = ranking.ranked(results, sort)
    rows = []
    for run in ranked.ordered:
        values = [runs_table.visible(run.job.varied.get(name, "")) for name in ranked.varied]
        ends = [printer.text((run.result or {}).get(name)) for name in ranked.metrics]
        code = "" if run.status.exit_code is None else run.status.exit_code
        state = wording.describe(run.status, run.job.requeue_limit)
        rows.append([run.job.id, *values, state, code, *ends])
    headers = ["id", *ranked.varied, "state", "exit code", *ranked.metrics]
    printer.table(rows, headers, ranked.metrics[1:])
    best, metric = ranked.best, ranked.metric
    if metric and best and best.result:
        winner = f"{best.job.id}  {runs_table.varied(best.job.varied)}".rstrip()
        click.echo(f"best {metric}: {winner}, {printer.text(best.result[metric])}", err=True)
