"""`runner convert`."""

from __future__ import annotations

from pathlib import Path

import click

from containers import definition
from containers.dockerfile.convert import convert
from containers.dockerfile.stage import Note

from ...core import atomic
from ...core.errors import UsageError
from ...core.errors import UsageError as NotADefinition

EXAMPLE = "Example: runner convert Dockerfile -o my.def && runner build my.def"
HEADING = "not converted, or to be looked at:"


@click.command("convert", epilog=EXAMPLE)
@click.argument("dockerfile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="output file (default: standard output)"
)
def convert_command(dockerfile: Path, output: Path | None) -> None:
    """Convert a Dockerfile to a definition file; list the instructions that have no equivalent.

    Keep the definition file in the Dockerfile's folder: it refers to the same files.
    """
    try:
        text, notes = convert(dockerfile, dockerfile.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{dockerfile} is not text", str(error)) from None
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            atomic.write_text(output, text)
        except OSError as error:
            raise UsageError(f"cannot write {output}", str(error)) from None
    for line in listed(text, notes, output.name if output else "the definition"):
        click.echo(line, err=True)


def listed(text: str, notes: list[Note], name: str) -> list[str]:
    """Return the lines to print: the notes, and what is wrong with the definition file."""
    lines = [f"  {note}" for note in notes]
    try:
        definition.check(text, name, {})
    except NotADefinition as error:
        lines.append("  " + str(error).replace("\n", "\n  "))
    return [HEADING, *lines] if lines else []
