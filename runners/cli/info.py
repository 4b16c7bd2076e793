"""Commands that show what there is: recipes, settings."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from ..settings import config, trainers
from . import printer

HELP = {"help_option_names": ["-h", "--help"]}


RECIPES_EXAMPLE = """\b
Examples:
  runner recipes
  runner recipes copy torch_mnist
"""


@click.group("recipes", invoke_without_command=True, context_settings=HELP, epilog=RECIPES_EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.pass_context
def recipes_command(ctx: click.Context, as_json: bool) -> None:
    """List the packaged trainers; copy one to edit it."""
    if ctx.invoked_subcommand is not None:
        return
    presets = trainers.presets()
    if as_json:
        printer.print_json(presets)
    else:
        rows = [[name, p["framework"], p["description"]] for name, p in presets.items()]
        printer.table(rows, ["name", "framework", "what it does"])


@recipes_command.command(
    "copy", context_settings=HELP, epilog="Example: runner recipes copy torch_mnist"
)
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--force", is_flag=True, help="replace a file that is there")
def copy_command(name: str, folder: Path, force: bool) -> None:
    """Write the trainer NAME into FOLDER, or here, as the start of your own.

    The file runs as it is; what it imports from `recipes` comes with the image or the launch.
    """
    target = trainers.copy(name, folder, force=force)
    click.echo(f"wrote {target}")
    click.echo(f"next: runner launch --image IMAGE --nodes 2 {_as_trainer(target)}")


def _as_trainer(path: Path) -> str:
    return shlex.quote(str(path) if "/" in str(path) else f"./{path}")


@click.group("config", context_settings=HELP)
def config_command() -> None:
    """Show the settings in force here."""


@config_command.command(
    "show", context_settings=HELP, epilog="Example: runner config show --origin"
)
@click.option("--origin", is_flag=True, help="also say where each value came from")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show_command(origin: bool, as_json: bool) -> None:
    """Show the settings from files, environment and defaults."""
    from ..settings.sites import detect

    profile, problem = detect.profile(os.environ)
    if problem:
        click.echo(f"runner: {problem}", err=True)
    merged = config.load({}, os.environ, profile=profile)
    if as_json:
        printer.print_json(
            {k: {"value": v, "origin": merged.origins[k]} for k, v in merged.values.items()}
        )
        return
    rows = [[k, v, *([merged.origins[k]] if origin else [])] for k, v in merged.values.items()]
    printer.table(rows, ["setting", "value", *(["origin"] if origin else [])])
