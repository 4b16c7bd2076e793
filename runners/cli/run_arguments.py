"""Which runs a command is about: the argument, the options, and where they are looked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import click

from ..core.job_record import Job, JobPaths
from ..jobs import find as lookup
from ..settings import config

HELP = {"help_option_names": ["-h", "--help"]}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def of_runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --runs-dir."""
    return click.option("--runs-dir", metavar="DIR", help="folder for the runs (default: ./runs)")(
        function
    )


def of_a_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument JOB, which may be left out, and --runs-dir."""
    return click.argument("job", required=False)(of_runs(function))


def as_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="print JSON")(function)


def sort(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --sort."""
    return click.option(
        "--sort", metavar="NAME", help="best first by this number of the results (default: "
        "accuracy, loss or the rate, whichever there is)",
    )(function)  # fmt: skip


def of_ranks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rank and --all, which `ranks` understands."""
    one = click.option(
        "--rank", multiple=True, type=int, help="show the lines of this rank, not of rank 0"
    )
    every = click.option("--all", "all_ranks", is_flag=True, help="show the lines of all ranks")
    return one(every(function))


def ranks(chosen: tuple[int, ...], all_ranks: bool) -> frozenset[int] | None:
    """Return the ranks to show, None for all of them."""
    if all_ranks and chosen:
        raise click.UsageError("--rank and --all contradict each other")
    return None if all_ranks else frozenset(chosen or (0,))


def folder(runs_dir: str | None) -> Path:
    """Return the folder of the runs."""
    return Path(config.load({"runs-dir": runs_dir}, os.environ).get("runs-dir")).absolute()


def find(job: str | None, runs_dir: str | None) -> tuple[JobPaths, Job]:
    """Return the run that `job` means, the last by default; raise NotFound."""
    return lookup.find(job, folder(runs_dir))
