"""`runner build wheel`, `env` and `horovod`: what is built for use without a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import click

from containers import pip
from containers.host_environment import EnvironmentOptions
from containers.image_catalogue import IMAGES

from ...images import build_and_record
from ...images.facts import environment_facts
from ..progress import phases
from . import build_options

FOLDER = click.Path(path_type=Path, file_okay=False)


def compiled_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for what is compiled on this machine."""
    for option in (
        build_options.packages,
        click.option(
            "--module", multiple=True, metavar="NAME", help="environment module to load first"
        ),
        click.option("--mpi", default="", metavar="DIR|MPICXX", help="MPI to compile against"),
    ):
        function = option(function)
    return function


@click.command("wheel", epilog="Example: runner build wheel cpu -o wheels")
@click.argument("image", type=click.Choice(list(IMAGES)))
@click.option("--output", "-o", type=FOLDER, help="folder for it (default: images/ on scratch)")
@build_options.base
@build_options.packages
@build_options.ca
@build_options.arch
@click.option("--dry-run", is_flag=True, help="print the commands and stop")
def wheel_command(image: str, dry_run: bool, **values: Any) -> None:
    """Build only the Horovod wheel of IMAGE, with its SHA-256."""
    options, progress = build_options.of(values), phases()
    if dry_run:
        click.echo(build_and_record.describe_wheel(image, options, progress))
        return
    wheel = build_and_record.wheel(image, options, progress)
    progress.say(wheel.checksum)
    click.echo(wheel.path)


@click.command("env", epilog="Example: runner build env /scratch/ada/hvd --module openmpi/4.1")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("image", type=click.Choice(list(IMAGES)), default="cpu")
@compiled_here
def env_command(folder: Path, image: str, **values: Any) -> None:
    """Create a Python environment in DIR with the packages of IMAGE (default: cpu).

    Its Horovod is compiled against this machine's MPI.
    """
    options = _options(folder, image, values)
    _show(options.folder, build_and_record.environment_of_lock(options, phases()))


@click.command("horovod", epilog="Example: runner build horovod --into /scratch/ada/mine")
@click.option("--into", type=FOLDER, metavar="DIR", required=True, help="the environment")
@compiled_here
def horovod_command(into: Path, **values: Any) -> None:
    """Compile Horovod for the torch and TensorFlow of an existing Python environment."""
    options = _options(into, "cpu", values)
    _show(options.folder, build_and_record.horovod_into(options, phases()))


COMMANDS = (wheel_command, env_command, horovod_command)


def _options(folder: Path, image: str, values: Mapping[str, Any]) -> EnvironmentOptions:
    return EnvironmentOptions(
        folder=folder.expanduser().absolute(),
        image=image,
        mpi=values["mpi"],
        modules=values["module"],
        source=pip.PackageSource.of(values),
    )


def _show(folder: Path, labels: Mapping[str, str]) -> None:
    said = f"Horovod {labels['horovod.version']}, {labels.get('horovod.controllers', '')}"
    if library := labels.get(environment_facts.LIBRARY):
        said += f", {labels['mpi.flavour']} {labels['mpi.version']} ({library})"
    phases().say(said)
    click.echo(folder)
