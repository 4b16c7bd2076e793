"""Options and arguments that several commands have; those of the table of settings."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Callable

import click

from ..core.job_record import Job, JobPaths
from ..jobs import find_run as lookup
from ..settings import config
from ..settings.table import GROUPS, SETTINGS, Setting

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
    return config.load({"runs-dir": runs_dir}, os.environ, strict=False).runs_dir


def find(job: str | None, runs_dir: str | None) -> tuple[JobPaths, Job]:
    """Return the run that `job` means, the last by default; raise NotFound."""
    return lookup.find(job, folder(runs_dir))


def find_all(job: str | None, runs_dir: str | None) -> list[tuple[JobPaths, Job]]:
    """Return the run that `job` means, or all runs of an array; raise NotFound."""
    return lookup.find_all(job, folder(runs_dir))


class SettingOption(click.Option):
    """An option of a setting, which has a heading in the help."""

    def __init__(self, *words: Any, group: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self.group = group


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def without(names: Collection[str]) -> Decorator:
    """Add an option for each setting but those named; one that is not given is None, or empty."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(SETTINGS.values()):
            function = function if setting.name in names else _option(setting)(function)
        return function

    return add


setting_options = without(())


def _option(setting: Setting) -> Decorator:
    long = f"--{setting.name}"
    shared: dict[str, Any] = {"cls": SettingOption, "group": GROUPS[setting.group]}
    if setting.kind == "switch":
        words = (*setting.words, f"{long}/--no-{setting.name}")
        return click.option(*words, default=None, help=setting.help, **shared)
    return click.option(
        *(*setting.words, long, parameter(setting.name)),
        type=_type(setting),
        multiple=setting.kind == "list",
        metavar=setting.metavar or None,
        help=setting.help,
        **shared,
    )


def _type(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    return {"int": int, "number": float}.get(setting.kind, str)


def parameter(name: str) -> str:
    return name.replace("-", "_")


def flags(values: dict[str, Any]) -> dict[str, Any]:
    """Return click's parameters as settings by name, in the order in which they were typed.

    Lists are lists, and what was not given is None.
    """
    known = {parameter(name): name for name in SETTINGS}
    settings = {known[given]: value for given, value in values.items() if given in known}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in settings.items()}
