"""Which runs a command is about, of what `common_options` take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ..core import trust
from ..core.job_record import Job, JobPaths
from ..jobs import find as lookup
from ..settings import config


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
