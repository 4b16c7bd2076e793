"""`runner build`: a packaged image, a definition, or an image on top of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...core.errors import UsageError
from ...images import build_and_record
from ...images.build_and_record import Built
from ...images.build_request import BuildKind, ImageRequest, kind_of
from ..invocation import was_given
from ..progress import Lines, phases
from . import build_host, build_options
from .build_options import FILE
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
@build_options.output
@build_options.base
@build_options.packages
@click.option("--from", "origin", metavar="IMAGE", help="build a new image on top of this one")
@click.option("--requirements", "-r", type=FILE, help="with --from: install these Python packages")
@click.option("--horovod", is_flag=True, help="with --from: compile Horovod for its frameworks")
@click.option("--def", "def_file", type=FILE, help="with --from: apply your definition file")
@click.option("--frozen", is_flag=True, help="fail if Debian packages differ from the locked ones")
@build_options.ca
@click.option(
    "--build-arg",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="build argument of a definition file",
)
@build_options.arch
@build_options.level
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
        build_args=dict(map(_argument, given)),
        requirements=values["requirements"],
        options=build_options.of(values),
    )
    progress = phases()
    if dry_run:
        click.echo(build_and_record.describe_image(request, progress))
    else:
        show(build_and_record.build_image(request, progress), progress)


for command in build_host.COMMANDS:
    build_command.add_command(command)


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--build-arg {text}: not NAME=VALUE", id="build-arg-malformed")
    return name, value


def show(built: Built, progress: Lines) -> None:
    """Print the path of an image, and what is known of it."""
    if built.is_current:
        progress.say("nothing changed")
    if built.digest:
        click.echo(built.digest, err=True)
    click.echo(built.output)
