"""`runner build`: a packaged image, a definition, or an image on top of another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from containers import build_definition, build_record, pip
from containers.build import describe
from containers.catalogue import IMAGES
from containers.plan import BuildOptions

from ...core.errors import UsageError
from ...images import build
from ..invocation import was_given
from ..progress import phases
from . import build_host, build_options
from .build_options import FILE

EXAMPLE = """\b
Examples:
  runner build cpu
  runner build gpu --wheelhouse /shared/wheels
  runner build cpu --arch arm64
  runner build my.def -o my.sif --build-arg version=3
  runner build --from horovod_cpu.sif --requirements extra.txt -o mine.sif
  runner build --from nvidia.sif --horovod -o mine.sif
  runner build env /scratch/ada/hvd --module openmpi/4.1
"""
NO_TARGET = f"""\
name what to build: one of {", ".join(IMAGES)}, or a definition file.
An image from another: runner build --from IMAGE --requirements FILE, or --horovod"""
NEEDS_ADDITION = "name what to add: --requirements FILE, --horovod, or --def FILE"
ADDITIONS = ("requirements", "horovod", "def_file")
PACKAGES = ("wheelhouse", "index_url", "extra_index_url")
# What is built -> the options that are for it, beside those that all have.
OPTIONS = {
    "a packaged image": ("base", "frozen", "arch", *PACKAGES),
    "a definition file": ("given",),
    "--from with --requirements or --horovod": ("origin", "requirements", "horovod", *PACKAGES),
    "--from with --def": ("origin", "def_file", "given"),
}
PACKAGED, DEFINITION, ADDED, ON_TOP = OPTIONS
FOR_ALL = ("target", "output", "ca", "dry_run")


class Build(click.Group):
    """A command whose first word names one of its own commands, or else what to build."""

    allow_extra_args, allow_interspersed_args = False, True
    parse_args, invoke = click.Command.parse_args, click.Command.invoke

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
@click.option("--dry-run", is_flag=True, help="print the definition file and the command, and stop")
@click.pass_context
def build_command(
    ctx: click.Context, /, target: str | None, dry_run: bool, given: tuple[str, ...], **values: Any
) -> None:
    """Build TARGET, a packaged image (cpu, gpu, gpu13) or a definition file, without root.

    With --from instead of TARGET, the new image is built on top of an existing one. The commands
    below build without a container; each has options of its own.
    """
    with build_options.failures():
        if _kind(ctx, target, values) is PACKAGED:
            packaged(str(target), build_options.of(values), dry_run)
        else:
            _definition(target, dict(map(_argument, given)), dry_run, values)


for command in build_host.COMMANDS:
    build_command.add_command(command)


def _kind(ctx: click.Context, target: str | None, values: Mapping[str, Any]) -> str:
    """Return which of OPTIONS is asked for; raise UsageError for options of another."""
    origin, ways = values["origin"], [name for name in ADDITIONS if values[name]]
    if origin and target:
        raise UsageError(f"{target}: --from already names the base image; {NEEDS_ADDITION}")
    if ways and not origin:
        raise UsageError("--requirements, --horovod and --def go with --from IMAGE, the base image")
    if origin and len(ways) != 1:
        raise UsageError(f"--from {origin}: {NEEDS_ADDITION}{'; exactly one' if ways else ''}")
    if not (origin or target):
        raise UsageError(NO_TARGET)
    kind = PACKAGED
    if origin:
        kind = ON_TOP if values["def_file"] else ADDED
    elif target not in IMAGES and (str(target).endswith(".def") or "/" in str(target)):
        kind = DEFINITION
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if was_given(ctx, name) and name not in (*FOR_ALL, *OPTIONS[kind]):
            others = " or ".join(other for other, names in OPTIONS.items() if name in names)
            raise UsageError(f"{parameter.opts[0]} is for {others}, not for {kind}")
    return kind


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--build-arg {text}: not NAME=VALUE")
    return name, value


def packaged(name: str, options: BuildOptions, dry_run: bool = False) -> None:
    """Build a packaged image, and print its path and digest. Raises RunnerError."""
    made, progress = build.plan_image(name, options), phases()
    if dry_run:
        click.echo(describe(made, options, progress))
        return
    bill = build.build_packaged(made, options, progress)
    progress.say(f"bill of materials: {bill}" if bill else "nothing changed")
    click.echo(build_record.digest(made.output), err=True)
    click.echo(made.output)


def _definition(
    target: str | None, build_args: Mapping[str, str], dry_run: bool, values: Mapping[str, Any]
) -> None:
    origin, output, ca = values["origin"], values["output"], values["ca"]
    if path := target or values["def_file"]:
        definition = build.with_definition(origin, Path(path), build_args, output, ca)
    else:
        wanted, source = values["requirements"], pip.PackageSource.of(values)
        definition = build.with_packages(origin, wanted, source, output, ca)
    if dry_run:
        click.echo(build_definition.describe(definition))
        return
    progress = phases()
    if bill := build.build_defined(definition, progress):
        progress.say(f"bill of materials: {bill}")
    click.echo(definition.output)
