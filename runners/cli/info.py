"""Commands that show what there is, recipes and settings; whose settings are trusted."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from ..core import trust
from ..core.errors import NotFound, UsageError, nearest
from ..settings import config, trainers
from . import common_options, printer

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
RECIPES_EXAMPLE = """\b
Examples:
  runner recipes
  runner recipes show torch_mnist
  runner recipes copy minimal_torch
"""


@click.group("recipes", invoke_without_command=True, epilog=RECIPES_EXAMPLE)
@common_options.as_json
@click.pass_context
def recipes_command(ctx: click.Context, as_json: bool) -> None:
    """List the packaged trainers; show one's options, copy one to edit it.

    A minimal one is one file of at most 100 lines that imports nothing of ours. A full one also
    resumes, stops in time and records, with the modules that `copy` puts beside it.
    """
    if ctx.invoked_subcommand is not None:
        return
    presets = trainers.presets()
    rows = [[name, p["kind"], p["framework"], p["description"]] for name, p in presets.items()]
    headers = ["name", "kind", "framework", "what it does"]
    printer.json_or_table(as_json, presets, rows, headers)


@recipes_command.command("show", epilog="Example: runner recipes show torch_mnist")
@click.argument("name")
def show_recipe_command(name: str) -> None:
    """Show what the trainer NAME does, and its options, which come after `--`."""
    from ..settings import trainer_options

    path = trainers.source(name)
    if path is None:
        raise NotFound(f"there is no recipe named {name!r}", nearest(name, trainers.presets()))
    preset = trainers.presets()[name]
    click.echo(f"{preset['description']} ({preset['kind']}, {preset['framework']})")
    click.echo(f"runner launch --image IMAGE --nodes 2 {name} -- OPTIONS\n")
    click.echo(trainer_options.help_text(path), nl=False)


@recipes_command.command("copy", epilog="Example: runner recipes copy torch_mnist")
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--force", is_flag=True, help="replace files that are there")
def copy_command(name: str, folder: Path, force: bool) -> None:
    """Write the trainer NAME into FOLDER, or here, as the start of your own.

    The file runs as it is. The modules that a full one imports go into FOLDER/recipes; a minimal
    one imports nothing of ours.
    """
    target, *shared = trainers.copy(name, folder, force=force)
    names = ", ".join(path.name for path in shared if path.name != "__init__.py")
    about = f"and what it imports, in {folder / trainers.PACKAGE}: {names}"
    click.echo(f"wrote {target}" + (f" {about}" if shared else ", which imports nothing of ours"))
    trainer = str(target) if "/" in str(target) else f"./{target}"
    click.echo(f"next: runner launch --image IMAGE --nodes 2 {shlex.quote(trainer)}")


@click.group("config")
def config_command() -> None:
    """Show the effective settings; trust the files of a folder."""


@config_command.command("show", epilog="Example: runner config show --origin")
@click.option("--origin", is_flag=True, help="also show where each value comes from")
@common_options.as_json
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
    """Trust runner.toml, images.lock and runs in FOLDER and below, whoever owns them.

    By default only files that you or root own are read, because such a file can name programs and
    libraries that run as you. The trust ends when the owner of the folder changes.
    """
    if remove and listing:
        raise UsageError("--remove and --list contradict each other")
    if listing:
        for each in trust.folders(os.environ):
            click.echo(each)
    elif remove:
        click.echo(f"no longer trusted: {trust.remove(folder, os.environ)}", err=True)
    else:
        click.echo(f"trusted from now on: {trust.add(folder, os.environ)} and below", err=True)
