"""`runner logs`: prints a job's log, or follows it."""

from __future__ import annotations

import sys

import click

from ...monitoring import end, job_log
from ...monitoring.job_log import SilentRanks
from .. import options, printer
from . import follow, job_end
from .follow import Plain

EXAMPLE = """\b
Examples:
  runner logs --follow --tail 20 42
  runner logs --rank 3 --rank 5 42
  runner logs --all --tail 100 42
"""


@click.command("logs", epilog=EXAMPLE)
@options.job
@options.runs_dir
@click.option("-f", "--follow", "goes_on", is_flag=True, help="follow the log until the job ends")
@click.option(
    "-n", "--tail", type=click.IntRange(0), metavar="N", help="start with the last N lines"
)
@options.rank
@options.all_ranks
def logs_command(
    job: str | None,
    runs_dir: str | None,
    goes_on: bool,
    tail: int | None,
    rank: tuple[int, ...],
    all_ranks: bool,
) -> None:
    """Show the merged log of JOB, each line as `rank@host | ...`.

    Lines of Slurm and of the runner itself are always shown.
    """
    paths, job_record = options.find(job, runs_dir)
    ranks = options.ranks(rank, all_ranks)
    if goes_on:
        status = follow.to_the_end(paths, job_record, ranks, tail=tail)
        ended = end.of_job(paths, job_record, status)
        job_end.finish(ended, ranks)
        sys.exit(ended.exit_code)
    shown = Plain()
    for part in job_log.read(job_record, ranks, tail):
        if isinstance(part, SilentRanks):
            who = f"rank {', '.join(map(str, part.ranks))}"
            printer.tell(f"{who} wrote nothing; --all shows what others wrote")
        else:
            shown.show(part)
