"""`runner convert`."""

from __future__ import annotations

from pathlib import Path

import click

from containers import definition

from ..core import atomic
from ..core.errors import UsageError
from ..core.errors import UsageError as NotADefinition
from ..images.dockerfile.convert import convert
from ..images.dockerfile.stage import Note

EXAMPLE = "Example: runner convert Dockerfile -o my.def && runner build my.def"
HEADING = "not converted, or to be looked at:"


@click.command("convert", epilog=EXAMPLE)
@click.argument("dockerfile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--output", "-o", type=click.Path(path_type=Path), help="default: standard output")
def convert_command(dockerfile: Path, output: Path | None) -> None:
    """Turn a Dockerfile into a definition; what has no counterpart is listed.

    The definition belongs into the Dockerfile's folder: it names the same files.
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
    """What is to be told: the notes, and what is wrong with the definition as it is."""
    lines = [f"  {note}" for note in notes]
    try:
        definition.check(text, name, {})
    except NotADefinition as error:
        lines.append("  " + str(error).replace("\n", "\n  "))
    return [HEADING, *lines] if lines else []
