"""`runner release`: what a maintainer does for others to have prebuilt images."""

from __future__ import annotations

from pathlib import Path

import click

from ..core import runtime_pull
from ..images import local, prebuilt
from ..release import prepare, publish, read
from . import common_options, progress

FOLDER = click.Path(path_type=Path, file_okay=False)
PUBLISH_EXAMPLE = """\b
Examples:
  runner release publish one/ two/ --to oras://registry.example.org/kit --key ada@example.org
  runner release publish one/ two/ --to /shared/images --key ada@example.org
"""


@click.group("release")
def release_command() -> None:
    """Make a release of images, of two builders who made the same bytes."""


@release_command.command(
    "prepare",
    epilog="Example: runner release prepare horovod_cpu.sif --builder https://example.org/a -o one",
)
@click.argument("image")
@click.option("--builder", required=True, metavar="URI", help="who built it, for the provenance")
@click.option("--output", "-o", required=True, type=FOLDER, help="folder for what is prepared")
def prepare_command(image: str, builder: str, output: Path) -> None:
    """Prove IMAGE, of ours, by its own test, and write what one builder gives to a release.

    That is the SIF, the same as an OCI archive, its lock, bill of materials (CycloneDX) and
    provenance (SLSA 1.0).
    """
    built = prepare.find(local.find(image))
    with progress.display() as display:
        prepare.prepare(built, builder, output, display)
    for path in sorted(output.glob(built.file("*"))):
        click.echo(path)


@release_command.command("publish", epilog=PUBLISH_EXAMPLE)
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
@click.option("--to", "target", required=True, metavar="TARGET", help="oras://HOST/FOLDER, or DIR")
@click.option("--key", required=True, metavar="KEY", help="of gpg, to sign the release with")
@common_options.no_https
def publish_command(folders: tuple[Path, ...], target: str, key: str, plain: bool) -> None:
    """Publish the images that the builders of FOLDERS prepared, if they made the same bytes."""
    place = read.source(prebuilt.typed("--to", target), plain or runtime_pull.plain())
    with progress.display() as display:
        record = publish.publish(folders, place, key, display)
    for image in record.images:
        click.echo(f"{image.digest} {place.uri(record, image)}")
