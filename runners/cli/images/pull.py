"""`runner pull`: an image from a registry, or from the source of prebuilt ones."""

from __future__ import annotations

from typing import Any

import click

from ...contract.log_text import human_size
from ...core import machine
from ...images import pull
from .. import options, printer, progress

EXAMPLE = """\b
Examples:
  runner pull gpu
  runner pull cpu --or-build
  runner pull oras://registry.example.org/team/train:v1
  runner pull docker://nvcr.io/nvidia/pytorch:24.12-py3 --name pytorch
  runner pull train.sif --digest sha256:2c26b46b68ffc68f...
"""


@click.command("pull", epilog=EXAMPLE)
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
    facts = {"name": request.name, **vars(stored), "path": str(stored.path)}
    about = f"{request.name}: {stored.digest}, {human_size(stored.size)}"
    printer.made(as_json, facts, about, stored.path)


def _pull_or_build(uri: str | None, as_json: bool, values: dict[str, Any]) -> None:
    """Print the path of a packaged image, as it is for this machine."""
    from ...images.build_and_record import pull_or_build
    from . import build

    options, shown = {**values, "json": as_json}, progress.phases()
    given = [name for name, value in options.items() if value and name != "arch"]
    build.show(pull_or_build(uri, values["arch"], given, printer.Console(), shown), shown)
