"""`runner config`: shows the settings in force, and trusts a folder's files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...core import trust
from ...core.errors import UsageError
from ...settings import config
from .. import options, printer

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group("config")
def config_command() -> None:
    """Show the effective settings; trust the files of a folder."""


@config_command.command("show", epilog="Example: runner config show --origin")
@click.option("--origin", is_flag=True, help="also show where each value comes from")
@options.as_json
def show_command(origin: bool, as_json: bool) -> None:
    """Show the effective settings from files, environment and defaults."""
    from .sites import here

    merged = config.load({}, os.environ, profile=here())
    rows = [[name, value, merged.origins(name)] for name, value in merged.values.items()]
    facts = {name: {"value": value, "origin": where} for name, value, where in rows}
    columns = 3 if origin else 2
    headers = ["setting", "value", "origin"][:columns]
    printer.json_or_table(as_json, facts, [row[:columns] for row in rows], headers)


@config_command.command("trust", epilog="Example: runner config trust /project/team")
@click.argument("folder", type=FOLDER, default=".")
@click.option("--remove", is_flag=True, help="stop trusting the folder")
@click.option("--list", "listing", is_flag=True, help="list the trusted folders")
def trust_command(folder: Path, remove: bool, listing: bool) -> None:
    """Trust runner.toml, images.lock and runs in FOLDER and below, regardless of their owner.

    By default only files that you or root own are read, because such a file can name programs and
    libraries that run as you. The trust ends when the owner of the folder changes.
    """
    if remove and listing:
        raise UsageError("--remove and --list contradict each other", id="remove-and-list")
    if listing:
        for folder in trust.folders(os.environ):
            click.echo(folder)
    elif remove:
        click.echo(f"no longer trusted: {trust.remove(folder, os.environ)}", err=True)
    else:
        click.echo(f"trusted from now on: {trust.add(folder, os.environ)} and below", err=True)
