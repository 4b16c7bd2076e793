"""`runner status`: the state of a job, or of each run of an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from ...core import diagnosis
from ...core.job_record import Job, JobPaths
from ...core.text import span
from ...monitoring import run_status, stalls
from ...monitoring.resource_use import RunUse
from ...monitoring.run_status import RunDetails
from ...settings import suggest
from .. import options, printer
from . import runs_table


@click.command("status", epilog="Example: runner status 42")
@options.job
@options.runs_dir
@options.as_json
def status_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Show the state of JOB: a job ID, or a run's name or folder (default: the last run)."""
    meant = options.find_all(job, runs_dir)
    if len(meant) > 1:
        runs_table.show(meant, as_json)
    else:
        _show(*meant[0], as_json)


def _show(paths: JobPaths, job: Job, as_json: bool) -> None:
    known = run_status.details(paths, job, printer.Console())
    if as_json:
        printer.print_json(run_status.facts_of_details(known))
        return
    printer.result_table(_in_words(known))
    for line in stalls.table(known.stall) if known.stall else ():
        click.echo(f"  {line}")
    if known.use:
        click.echo("\nuse of its nodes (means, unless it says peak):")
        printer.table(*use_table(known.use))
        for line in use_lines(known.use, job):
            click.echo(line)


def _in_words(known: RunDetails) -> dict[str, Any]:
    """Return what is known of a run, each fact as it is read by people."""
    status = known.status
    row: dict[str, Any] = {
        **run_status.facts_of_details(known),
        "state": status.state.value,
        "elapsed": span(status.elapsed),
        "left": span(status.left),
        "step": runs_table.step(status),
        "rate": runs_table.rate(status),
        "varied": runs_table.varied(status.varied),
    }
    for name in ("reason", "steps", "unit"):  # told by another
        del row[name]
    for name in ("use", "ranks"):  # tables of their own
        row.pop(name, None)
    return {name.replace("_", " "): value for name, value in row.items() if value not in ("", None)}


def use_lines(used: RunUse, job: Job) -> Iterator[str]:
    """Yield what was found of a run's use of its nodes, with the command that fixes it."""
    typed = partial(suggest.text, typed=job.typed)
    for finding in used.findings:
        sentence, *more = diagnosis.lines(finding, typed)
        yield from (f"runner: {runs_table.visible(sentence)}", *more)


def use_table(used: RunUse) -> tuple[list[list[str]], list[str]]:
    rows, headers = used.table
    return [[runs_table.visible(cell) for cell in row] for row in rows], headers
