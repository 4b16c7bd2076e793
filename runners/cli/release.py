"""`runner release`: what a maintainer does for others to have prebuilt images."""

from __future__ import annotations

import click

from ..core import runtime_pull
from ..images import local, prebuilt, publish, release
from . import common_options, progress

EXAMPLE = """\b
Examples:
  runner release horovod_cpu.sif --to oras://registry.example.org/kit --key ada@example.org
  runner release horovod_cpu.sif horovod_gpu.sif --to /shared/images --key ada@example.org
"""


@click.command("release", epilog=EXAMPLE)
@click.argument("images", nargs=-1, required=True)
@click.option("--to", "target", required=True, metavar="TARGET", help="oras://HOST/FOLDER, or DIR")
@click.option("--key", required=True, metavar="KEY", help="GPG key that signs the list")
@common_options.no_https
def release_command(images: tuple[str, ...], target: str, key: str, plain: bool) -> None:
    """Publish IMAGES, built from one commit, with a signed list of their digests.

    `runner pull cpu` and `gpu` find them if `[images] source` is TARGET.
    """
    place = release.source(prebuilt.typed("--to", target), plain or runtime_pull.plain())
    paths = [local.find(image) for image in images]
    with progress.display() as display:
        made = publish.publish(paths, place, key, display)
    for image in made.images:
        click.echo(f"{image.digest} {place.uri(made, image)}")
