"""Commands for registries: pull, push."""

from __future__ import annotations

from typing import Any

import click

from ...core import machine
from ...core.text import human_size
from ...images import local_image, pull, push, reference
from .. import options, printer, progress

PULL_EXAMPLE = """\b
Examples:
  runner pull gpu
  runner pull cpu --or-build
  runner pull oras://registry.example.org/team/train:v1
  runner pull docker://nvcr.io/nvidia/pytorch:24.12-py3 --name pytorch
  runner pull train.sif --digest sha256:2c26b46b68ffc68f...
"""
PUSH_EXAMPLE = """\b
Examples:
  runner push horovod_cpu.sif oras://registry.example.org/team/train:v1
  runner push horovod_cpu.sif docker://registry.example.org/team/train:v1
  runner push --list horovod_gpu.sif oras://registry.example.org/kit
  runner push --list horovod_gpu.sif /shared/images
"""


@click.command("pull", epilog=PULL_EXAMPLE)
@click.argument("uri", required=False)
@click.option("--name", help="name in the images folder (default: IMAGE_TAG.sif)")
@click.option("--digest", default="", help="expected digest; for docker:// that of the manifest")
@click.option("--update", is_flag=True, help="resolve the tag again instead of using images.lock")
@click.option("--arch", default=machine.architecture, help="architecture (default: this machine's)")
@click.option(
    "--or-build", is_flag=True, help="for cpu and gpu: build the image if it cannot be pulled"
)
@options.no_https
@options.as_json
def pull_command(uri: str | None, as_json: bool, or_build: bool, **values: Any) -> None:
    """Pull an image, store it by its digest, and record it in images.lock.

    URI is oras://, docker:// or a .sif file; cpu, gpu and gpu13 are this version's prebuilt images,
    by the digest in the list of `[images] source`.
    """
    if or_build:
        _pull_or_build(uri, as_json, values)
        return
    request = pull.request_for(uri, printer.Console(), **values)
    with progress.display() as display:
        stored = pull.pull(request, display)
    if as_json:
        printer.print_json({"name": request.name, **vars(stored), "path": str(stored.path)})
    else:
        click.echo(f"{request.name}: {stored.digest}, {human_size(stored.size)}", err=True)
        click.echo(stored.path)


def _pull_or_build(uri: str | None, as_json: bool, values: dict[str, Any]) -> None:
    """Print the path of a packaged image, as it is for this machine."""
    from ...images.build import pull_or_build
    from . import build

    options, shown = {**values, "json": as_json}, progress.phases()
    given = [name for name, value in options.items() if value and name != "arch"]
    build.show(pull_or_build(uri, values["arch"], given, printer.Console(), shown), shown)


@click.command("push", epilog=PUSH_EXAMPLE)
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
    if as_json:
        printer.print_json({"uri": target.source, **vars(pushed)})
        return
    click.echo(f"{target.source}: {pushed.digest}", err=True)
    click.echo(target.at(pushed.manifest).text)


def _push_listed(image: str, source: str, plain: bool, as_json: bool) -> None:
    from ...images import push_listed

    path = local_image.find(image)
    with progress.display() as display:
        uri, made = push_listed.push_listed(path, source, plain, display)
    if as_json:
        printer.print_json({"uri": uri, **vars(made)})
        return
    click.echo(f"{uri}: {made.digest}", err=True)
    click.echo(uri)
