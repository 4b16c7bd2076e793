"""`runner logs`: prints a job's log, or follows it."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import chain
from pathlib import Path

import click

from ...core.errors import NotFound
from ...core.job_record import Job
from ...jobs.logs import JobLog, last, rank_of, so_far
from ...launching import end
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
    _print(job_record, ranks, tail)


def _print(job: Job, ranks: Collection[int] | None, tail: int | None) -> None:
    """Print a log piece by piece: it may be larger than this machine's memory."""
    if not Path(job.log).is_file():
        what = f"job {job.id} has no log yet"
        raise NotFound(what, f"{job.log} does not exist", f"runner status {job.id}")
    log, shown = JobLog(Path(job.log)), Plain()
    spoke = ranks is None or tail is not None
    first = [] if tail is None else [last(log, ranks, tail)]
    for lines in chain(first, so_far(log, ranks)):
        shown.show(lines)
        spoke = spoke or any(rank_of(line) is not None for line in lines)
    if not spoke:
        who = f"rank {', '.join(map(str, sorted(ranks or ())))}"
        printer.tell(f"{who} wrote nothing; --all shows what others wrote")
