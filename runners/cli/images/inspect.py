"""`runner inspect`: an image's metadata."""

from __future__ import annotations

import textwrap
from dataclasses import asdict

import click

from ...contract.log_text import harmless
from ...images import local_image
from .. import options, printer
from .image_command import ImageCommand


@click.command("inspect", cls=ImageCommand, epilog="Example: runner inspect horovod_cpu.sif --json")
@click.argument("image")
@options.as_json
def inspect_command(image: str, as_json: bool) -> None:
    """Show the metadata of any IMAGE: a file, a sandbox folder or a name.

    Each fact is read from a label, from the file, or inside the image; otherwise it is unknown.
    Help, runscript, environment, test and definition follow. Apptainer or Singularity reads them
    from a SIF file; those of a sandbox, or of a file without metadata, are read without running
    anything of it.
    """
    path = local_image.file_of(image)
    from ...images import inspect, metadata

    inspected, about = inspect.inspect(path), metadata.read(path)
    facts = {name: asdict(fact) for name, fact in inspected.facts.items()}
    rows = [[name, fact.value, fact.source] for name, fact in inspected.facts.items()]
    value = {"image": str(path), "facts": facts, **about.sections()}
    printer.json_or_table(as_json, value, rows, ["fact", "value", "from"])
    for heading, text in () if as_json else about.texts():
        click.echo(f"\n{heading}:\n{textwrap.indent(harmless(text), '  ')}")
    if inspected.problem:
        printer.tell(f"cannot look into it: {inspected.problem}")
    if about.problem:
        printer.tell(str(about.problem))
