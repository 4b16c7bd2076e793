"""`runner build`: an image, or what is built for use without a container: wheel, env, horovod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import click

from containers import pip
from containers.build_plan import PACK_LEVEL, STRONGEST_LEVEL, BuildOptions
from containers.host_environment import EnvironmentOptions
from containers.image_catalogue import IMAGES

from ...core.machine import MACHINES
from ...images import build_and_record
from ...images.build_and_record import Built
from ...images.build_request import BuildKind, ImageRequest, arguments, kind_of
from ...images.facts import environment_facts
from ..invocation import was_given
from ..progress import Lines, phases
from .image_command import ImageCommand

EXAMPLE = """\b
Examples:
  runner build cpu
  runner build gpu --wheelhouse /shared/wheels
  runner build cpu --arch arm64
  runner build cpu --pack-level 19
  runner build my.def -o my.sif --build-arg version=3
  runner build --from horovod_cpu.sif --requirements extra.txt -o mine.sif
  runner build --from nvidia.sif --horovod -o mine.sif
  runner build env /scratch/ada/hvd --module openmpi/4.1
"""

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)

base = click.option(
    "--base",
    default="auto",
    metavar="auto|debian|IMAGE",
    help="base of the image: Debian packages, an image from a registry, or one in a file "
    "(docker-archive:FILE, oci-archive:FILE)",
)
ca = click.option(
    "--ca-certificate",
    "ca",
    type=FILE,
    help="CA certificate of the site, trusted during the build only",
)
arch = click.option(
    "--arch",
    type=click.Choice(sorted(MACHINES)),
    help="target architecture; a foreign one is emulated (default: this machine's)",
)


def packages(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where packages of Python come from."""
    for option in (
        click.option("--extra-index-url", metavar="URL", default="", help="additional index"),
        click.option("--index-url", metavar="URL", default="", help="package index to use"),
        click.option("--wheelhouse", metavar="DIR", help="install wheels from this folder only"),
    ):
        function = option(function)
    return function


def compiled_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for what is compiled on this machine."""
    for option in (
        packages,
        click.option(
            "--module", multiple=True, metavar="NAME", help="environment module to load first"
        ),
        click.option("--mpi", default="", metavar="DIR|MPICXX", help="MPI to compile against"),
    ):
        function = option(function)
    return function


class Build(ImageCommand, click.Group):
    """A command whose first word names one of its own commands, or else what to build."""

    allow_extra_args, allow_interspersed_args = False, True
    parse_args, image_parameter = click.Command.parse_args, "origin"

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: Any,
    ) -> click.Context:
        if args and args[0] in self.commands:
            name, *rest = args
            return self.commands[name].make_context(f"{info_name} {name}", rest, parent, **more)
        return super().make_context(info_name, args, parent, **more)


@click.group("build", cls=Build, invoke_without_command=True, subcommand_metavar="", epilog=EXAMPLE)
@click.argument("target", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="output file (default: in images/ on scratch)",
)
@base
@packages
@click.option("--from", "origin", metavar="IMAGE", help="build a new image on top of this one")
@click.option("--requirements", "-r", type=FILE, help="with --from: install these Python packages")
@click.option("--horovod", is_flag=True, help="with --from: compile Horovod for its frameworks")
@click.option("--def", "def_file", type=FILE, help="with --from: apply your definition file")
@click.option("--frozen", is_flag=True, help="fail if Debian packages differ from the locked ones")
@ca
@click.option(
    "--build-arg",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="build argument of a definition file",
)
@arch
@click.option(
    "--pack-level",
    "level",
    type=click.IntRange(1, STRONGEST_LEVEL),
    metavar="LEVEL",
    help=f"zstd level, 1 to {STRONGEST_LEVEL}; 6 packs fast, 19 is smallest ({PACK_LEVEL})",
)
@click.option("--dry-run", is_flag=True, help="print the definition file and the command, and stop")
@click.pass_context
def build_command(
    ctx: click.Context, /, target: str | None, dry_run: bool, given: tuple[str, ...], **values: Any
) -> None:
    """Build TARGET, a packaged image (cpu, gpu, gpu13) or a definition file, without root.

    With --from instead of TARGET, the new image is built on top of an existing one. The commands
    below build without a container; each has options of its own.
    """
    options = [option for option in ctx.command.params if was_given(ctx, option.name or "")]
    origin = values["origin"]
    kind = kind_of(target, origin, {option.name or "": option.opts[0] for option in options})
    definition = target if kind is BuildKind.DEFINITION else values["def_file"]
    request = ImageRequest(
        kind,
        name=target or "",
        origin=origin or "",
        definition=Path(definition) if definition else None,
        build_args=arguments(given),
        requirements=values["requirements"],
        options=_build_options(values),
    )
    progress = phases()
    if dry_run:
        click.echo(build_and_record.describe_image(request, progress))
    else:
        show(build_and_record.build_image(request, progress), progress)


@build_command.command("wheel", epilog="Example: runner build wheel cpu -o wheels")
@click.argument("image", type=click.Choice(list(IMAGES)))
@click.option("--output", "-o", type=FOLDER, help="folder for it (default: images/ on scratch)")
@base
@packages
@ca
@arch
@click.option("--dry-run", is_flag=True, help="print the commands and stop")
def wheel_command(image: str, dry_run: bool, **values: Any) -> None:
    """Build only the Horovod wheel of IMAGE, with its SHA-256."""
    options, progress = _build_options(values), phases()
    if dry_run:
        click.echo(build_and_record.describe_wheel(image, options, progress))
        return
    wheel = build_and_record.wheel(image, options, progress)
    progress.say(wheel.checksum)
    click.echo(wheel.path)


@build_command.command(
    "env", epilog="Example: runner build env /scratch/ada/hvd --module openmpi/4.1"
)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("image", type=click.Choice(list(IMAGES)), default="cpu")
@compiled_here
def env_command(folder: Path, image: str, **values: Any) -> None:
    """Create a Python environment in DIR with the packages of IMAGE (default: cpu).

    Its Horovod is compiled against this machine's MPI.
    """
    options = _environment(folder, image, values)
    _show(options.folder, build_and_record.environment_of_lock(options, phases()))


@build_command.command("horovod", epilog="Example: runner build horovod --into /scratch/ada/mine")
@click.option("--into", type=FOLDER, metavar="DIR", required=True, help="the environment")
@compiled_here
def horovod_command(into: Path, **values: Any) -> None:
    """Compile Horovod for the torch and TensorFlow of an existing Python environment."""
    options = _environment(into, "cpu", values)
    _show(options.folder, build_and_record.horovod_into(options, phases()))


def _build_options(values: Mapping[str, Any]) -> BuildOptions:
    """Return what the options say."""
    return BuildOptions(
        base=values["base"],
        source=pip.PackageSource.of(values),
        output=values["output"],
        frozen=values.get("frozen", False),
        ca=values["ca"],
        arch=values["arch"] or "",
        level=values.get("level"),
    )


def _environment(folder: Path, image: str, values: Mapping[str, Any]) -> EnvironmentOptions:
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


def show(built: Built, progress: Lines) -> None:
    """Print the path of an image, and what is known of it."""
    if built.is_current:
        progress.say("nothing changed")
    if built.digest:
        click.echo(built.digest, err=True)
    click.echo(built.output)
