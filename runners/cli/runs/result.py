"""`runner result`: what a trainer wrote at its end."""

from __future__ import annotations

import click

from ...jobs import job_status
from ...monitoring import end, result_facts, run_group
from .. import options, printer
from . import several_runs


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
        statuses = job_status.last_known(meant, printer.Console())
        several_runs.show(run_group.results(meant, statuses), as_json, sort)
        return
    paths, job_record = meant[0]
    result = end.result(paths, job_record)
    if as_json:
        printer.print_json(result)
    else:
        printer.result_table(result_facts.without_use(result))
    (status,) = job_status.last_known(meant, printer.Console())
    if failed := end.failure(paths, job_record, status):
        printer.tell(f"job {job_record.id} {failed}: these are not the results of a whole training")
        click.echo(f"  try: {end.explained_by(job_record)}", err=True)
