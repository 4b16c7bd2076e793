"""Options and arguments that several commands have, and which runs they mean.

For the options of a launch see `options`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ..core import trust
from ..core.job_record import Job, JobPaths
from ..jobs import find as lookup
from ..settings import config

job = click.argument("job", required=False)
runs_dir = click.option("--runs-dir", metavar="DIR", help="folder for the runs (default: ./runs)")
as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")
dry_run = click.option("--dry-run", "--dryrun", is_flag=True, help="print the script and stop")
sort = click.option(
    "--sort",
    metavar="NAME",
    help="sort by this metric, the best first (default: accuracy, loss or the rate, "
    "whichever there is)",
)
rank = click.option(
    "--rank", multiple=True, type=int, help="show the lines of this rank instead of rank 0"
)
all_ranks = click.option("--all", "all_ranks", is_flag=True, help="show the lines of all ranks")
no_https = click.option(
    "--no-https", "plain", is_flag=True, help="http instead of https (APPTAINER_NOHTTPS)"
)


def ranks(chosen: tuple[int, ...], all_ranks: bool) -> frozenset[int] | None:
    """Return the ranks to show, None for all of them."""
    if all_ranks and chosen:
        raise click.UsageError("--rank and --all contradict each other")
    return None if all_ranks else frozenset(chosen or (0,))


def folder(runs_dir: str | None) -> Path:
    return Path(config.load({"runs-dir": runs_dir}, os.environ).get("runs-dir")).absolute()


def find(job: str | None, runs_dir: str | None) -> tuple[JobPaths, Job]:
    """Return the run that `job` means, the last by default; raise NotFound."""
    return lookup.find(job, folder(runs_dir))


def check_ours(runs: Sequence[tuple[JobPaths, Job]]) -> None:
    """Raise UsageError for a run of other users: its record could name any job, and any program."""
    for paths, _ in runs:
        trust.check(paths.root, os.environ)


def find_all(job: str | None, runs_dir: str | None) -> list[tuple[JobPaths, Job]]:
    """Return the run that `job` means, or all runs of an array; raise NotFound."""
    return lookup.find_all(job, folder(runs_dir))
