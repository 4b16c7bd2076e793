"""Commands that show what there is: recipes, settings."""

from __future__ import annotations

import os

import click

from .. import config, trainers
from . import show

HELP = {"help_option_names": ["-h", "--help"]}


@click.command("recipes", context_settings=HELP, epilog="Example: runner recipes --json")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def recipes_command(as_json: bool) -> None:
    """List the packaged trainers."""
    presets = trainers.presets()
    if as_json:
        show.print_json(presets)
    else:
        rows = [[name, p["framework"], p["description"]] for name, p in presets.items()]
        show.table(rows, ["name", "framework", "what it does"])


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
    from ..sites import here

    profile, problem = here.profile(os.environ)
    if problem:
        click.echo(f"runner: {problem}", err=True)
    merged = config.load({}, os.environ, profile=profile)
    if as_json:
        show.print_json(
            {k: {"value": v, "origin": merged.origins[k]} for k, v in merged.values.items()}
        )
        return
    rows = [[k, v, *([merged.origins[k]] if origin else [])] for k, v in merged.values.items()]
    show.table(rows, ["setting", "value", *(["origin"] if origin else [])])
