"""`runner status` and `runner list`: how runs stand, once or as it changes."""

from __future__ import annotations

import click

from .. import jobs, lookup
from . import runs, show, standing, watching


@click.command("status", context_settings=runs.HELP, epilog="Example: runner status --watch 42")
@runs.of_a_job
@click.option("--watch", "goes_on", is_flag=True, help="go on until it has ended")
@runs.as_json
def status_command(job: str | None, runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """Show how JOB stands: a number, a run's name or folder; the last run by default."""
    meant = lookup.find_all(job, runs.folder(runs_dir))
    if goes_on:
        _not_json(as_json)
        watching.until_all_ended(lambda: [(paths, jobs.load(paths)) for paths, _ in meant])
    elif len(meant) > 1:
        _print(meant, as_json)
    else:
        facts = standing.of_one(*meant[0])
        show.print_json(facts) if as_json else show.result_table(standing.in_words(facts))


@click.command("list", context_settings=runs.HELP, epilog="Example: runner list --watch")
@runs.of_runs
@click.option("--watch", "goes_on", is_flag=True, help="go on until all have ended")
@runs.as_json
def list_command(runs_dir: str | None, goes_on: bool, as_json: bool) -> None:
    """List the runs, oldest first."""
    folder = runs.folder(runs_dir)
    if goes_on:
        _not_json(as_json)
        watching.until_all_ended(lambda: lookup.all_runs(folder))
    else:
        _print(lookup.all_runs(folder), as_json)


def _not_json(as_json: bool) -> None:
    if as_json:
        raise click.UsageError("--watch is for eyes; for a program ask again: --json")


def _print(meant: list[standing.Run], as_json: bool) -> None:
    rows = standing.of_all(meant)
    if as_json:
        show.print_json(rows)
    else:
        show.table(*standing.table(rows))
