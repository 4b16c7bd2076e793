"""`runner push`: an image to a registry, or to a source of prebuilt ones."""

from __future__ import annotations

import click

from ...images import local_image, push
from ...registry import reference
from .. import options, printer, progress
from .image_command import ImageCommand

EXAMPLE = """\b
Examples:
  runner push horovod_cpu.sif oras://registry.example.org/team/train:v1
  runner push horovod_cpu.sif docker://registry.example.org/team/train:v1
  runner push --list horovod_gpu.sif oras://registry.example.org/kit
  runner push --list horovod_gpu.sif /shared/images
"""


@click.command("push", cls=ImageCommand, epilog=EXAMPLE)
@click.argument("image")
@click.argument("uri")
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="list it at URI, a source of `runner pull cpu` and `gpu`",
)
@options.no_https
@options.as_json
def push_command(image: str, uri: str, listed: bool, plain: bool, as_json: bool) -> None:
    """Push IMAGE, a .sif file or a name, to a registry.

    oras:// stores the file unchanged. docker:// converts it to an OCI image, for Podman, Docker,
    Shifter and others.

    With --list IMAGE is one of this project, and URI a source: oras://HOST/FOLDER or a folder. The
    image goes there by name, version and architecture, and its digest into prebuilt.toml beside it.
    """
    if listed:
        _push_listed(image, uri, plain, as_json)
        return
    target = reference.target(uri)
    path = local_image.find(image)
    with progress.display() as display:
        pushed = push.push(path, target, plain, display)
    facts = {"uri": target.source, **vars(pushed)}
    about = f"{target.source}: {pushed.digest}"
    printer.made(as_json, facts, about, target.at(pushed.manifest).text)


def _push_listed(image: str, source: str, plain: bool, as_json: bool) -> None:
    from ...images import push_listed

    path = local_image.find(image)
    with progress.display() as display:
        uri, made = push_listed.push_listed(path, source, plain, display)
    printer.made(as_json, {"uri": uri, **vars(made)}, f"{uri}: {made.digest}", uri)
