"""`runner recipes`: the packaged trainers."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ...settings import recipe_copy, trainers
from .. import options, printer

RECIPES_EXAMPLE = """\b
Examples:
  runner recipes
  runner recipes show torch_mnist
  runner recipes copy minimal_torch
"""


@click.group("recipes", invoke_without_command=True, epilog=RECIPES_EXAMPLE)
@options.as_json
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
    path = trainers.packaged(name)
    preset = trainers.presets()[name]
    click.echo(f"{preset['description']} ({preset['kind']}, {preset['framework']})")
    click.echo(f"{recipe_copy.example(name)} -- OPTIONS\n")
    click.echo(trainers.parser(path).format_help(), nl=False)


@recipes_command.command("copy", epilog="Example: runner recipes copy torch_mnist")
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--force", is_flag=True, help="replace files that are there")
def copy_command(name: str, folder: Path, force: bool) -> None:
    """Write the trainer NAME into FOLDER, or here, as the start of your own.

    The file runs as it is. The modules that a full one imports go into FOLDER/recipes; a minimal
    one imports nothing of ours.
    """
    target, *shared = recipe_copy.copy(name, folder, force=force)
    names = ", ".join(path.name for path in shared if path.name != "__init__.py")
    about = f"and what it imports, in {folder / trainers.PACKAGE}: {names}"
    click.echo(f"wrote {target}" + (f" {about}" if shared else ", which imports nothing of ours"))
    trainer = str(target) if "/" in str(target) else f"./{target}"
    click.echo(f"next: {recipe_copy.example(name, shlex.quote(trainer))}")
