"""`runner build`."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from containers import (
    build,
    build_record,
    host_environment,
    into_environment,
    pip,
    plan,
    process,
)
from containers.catalogue import IMAGES
from containers.plan import BuildOptions

from ...core.disk_space import ELSEWHERE
from ...core.errors import SystemFault, UsageError
from ...core.machine import MACHINES
from ...images import environment, recorded_digest
from ...images.inside import extract_bill
from ..progress import phases
from . import build_from

EXAMPLE = """\b
Examples:
  runner build cpu
  runner build cpu --oci horovod_cpu.tar
  runner build gpu --wheelhouse /shared/wheels
  runner build cpu --arch arm64
  runner build wheel cpu
  runner build env /scratch/ada/hvd --module openmpi/4.1
  runner build horovod --into /scratch/ada/mine
  runner build my.def -o my.sif --build-arg version=3
  runner build --from horovod_cpu.sif --requirements extra.txt -o mine.sif
  runner build --from nvidia.sif --horovod -o mine.sif
"""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
INTERRUPTED = 130
WHEEL = "wheel"
ENV, HOROVOD = "env", "horovod"
FORM = f"{ENV} DIR, or {ENV} DIR {'|'.join(IMAGES)}: whose packages it has (default: cpu)"
NOT_FOR_ENV = "is for images, not for an environment"
OF_IMAGES = ("output", "oci", "base", "frozen", "arch", "ca", *build_from.OF_BASES)
NO_ROOM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
NO_TARGET = f"""\
name what to build: one of {", ".join(IMAGES)}, or a definition file.
An image from another: runner build --from IMAGE --requirements FILE, or --horovod"""
NOT_FOR_DEF = "is for the packaged images; a definition file names its own base and packages"


@click.command("build", epilog=EXAMPLE)
@click.argument("words", metavar="[TARGET]", nargs=-1)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="output file (default: in images/ on scratch)",
)
@click.option(
    "--oci",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="also write an OCI archive, for Podman, Docker and others",
)
@click.option(
    "--base",
    default="auto",
    metavar="auto|debian|IMAGE",
    help="base of the image: Debian packages, or an image from a registry",
)
@click.option("--wheelhouse", metavar="DIR", help="install wheels from this folder only")
@click.option("--index-url", metavar="URL", default="", help="package index to use")
@click.option("--extra-index-url", metavar="URL", default="", help="additional package index")
@click.option("--from", "origin", metavar="IMAGE", help="build a new image on top of this one")
@click.option("--requirements", "-r", type=FILE, help="with --from: install these Python packages")
@click.option("--horovod", is_flag=True, help="with --from: compile Horovod for its frameworks")
@click.option("--def", "def_file", type=FILE, help="with --from: apply your definition file")
@click.option("--into", is_flag=True, help="install into the existing environment DIR")
@click.option(
    "--mpi", default="", metavar="DIR|MPICXX", help="with env or horovod: MPI to compile against"
)
@click.option(
    "--module",
    multiple=True,
    metavar="NAME",
    help="with env or horovod: environment module to load first",
)
@click.option(
    "--ca-certificate",
    "ca",
    type=FILE,
    help="CA certificate of the site, trusted during the build only",
)
@click.option(
    "--build-arg",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="build argument of a definition file",
)
@click.option(
    "--arch",
    type=click.Choice(sorted(MACHINES)),
    help="target architecture; a foreign one is emulated (default: this machine's)",
)
@click.option(
    "--frozen", is_flag=True, help="fail if Debian packages differ from the locked versions"
)
@click.option("--dry-run", is_flag=True, help="print the definition file and the command, and stop")
def build_command(
    words: tuple[str, ...], given: tuple[str, ...], dry_run: bool, **values: Any
) -> None:
    """Build TARGET, a packaged image (cpu, gpu, gpu13) or a definition file, without root.

    `wheel cpu` builds only the Horovod wheel of an image, with its SHA-256. `env DIR` creates a
    Python environment without a container; its Horovod is compiled against this machine's MPI.
    `horovod --into DIR` compiles it for the torch and TensorFlow of an existing environment.
    With --from instead of TARGET, the new image is built on top of an existing one.
    """
    with failures():
        values["given"] = dict(map(_argument, given))
        if words[:1] == (HOROVOD,):
            _into_environment(words[1:], dry_run, values)
            return
        if words[:1] == (ENV,):
            _environment(words[1:], dry_run, values)
            return
        build_from.refuse(values, build_from.OF_ENVIRONMENTS, "is for: env DIR")
        if words[:1] == (WHEEL,):
            _wheel(words[1:], dry_run, values)
            return
        if len(words) > 1:
            raise UsageError(f"{shlex.join(words)}: give one target\n{NO_TARGET}")
        target = words[0] if words else None
        build_from.check(target, values)
        if target is None and not values["origin"]:
            raise UsageError(NO_TARGET)
        if target is not None and not _is_definition(target):
            _ours(target, dry_run, values)
            return
        if target is not None:
            unheard = (*build_from.OF_OURS, *build_from.PACKAGES)
            build_from.refuse(values, unheard, NOT_FOR_DEF)
        build_from.build(target, dry_run, values)


def _wheel(names: tuple[str, ...], dry_run: bool, values: dict[str, Any]) -> None:
    if len(names) != 1 or any(values[name] for name in (*build_from.OF_BASES, "oci")):
        raise UsageError(
            f"name the image whose Horovod it is: {WHEEL} {f' or {WHEEL} '.join(IMAGES)}"
        )
    options, progress = _options(values), phases()
    made = plan.make(names[0], options)
    folder = made.output if options.output else made.output.parent
    if dry_run:
        click.echo(build.describe(made, options, progress, alone=True))
        return
    found = build.copy_wheel(build.build_wheel(made, options, progress), folder)
    progress.say(found.with_name(f"{found.name}.sha256").read_text(encoding="utf-8").rstrip())
    click.echo(found)


def _is_definition(target: str) -> bool:
    """Whether the target is a file; the name of a packaged image takes precedence."""
    return target not in IMAGES and (target.endswith(".def") or "/" in target)


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--build-arg {text}: not NAME=VALUE")
    return name, value


@contextmanager
def failures() -> Iterator[None]:
    """Turn an interruption, and an error of the system, into a message and an exit code."""
    try:
        with process.stoppable():
            yield
    except OSError as error:
        remedy = ELSEWHERE if error.errno in NO_ROOM else ""
        click.echo(f"runner: {error.strerror}: {error.filename}\n{remedy}".rstrip(), err=True)
        sys.exit(SystemFault.exit_code)
    except KeyboardInterrupt:
        click.echo("\nrunner: interrupted; the incomplete build is removed", err=True)
        sys.exit(INTERRUPTED)


def _ours(name: str, dry_run: bool, values: dict[str, Any]) -> None:
    if values["given"]:
        raise UsageError("--build-arg is only for your own definition file")
    options, progress = _options(values), phases()
    made = plan.make(name, options)
    build_from.check_files(made.output, values)
    if dry_run:
        click.echo(build.describe(made, options, progress))
        return
    if build_record.is_current(made.output, made.key):
        progress.say("nothing changed")
    else:
        build.build(made, options, progress)
        recorded_digest.remember(made.output)
        progress.say(f"bill of materials: {extract_bill(made.output)}")
    if record := build_record.read(made.output):
        click.echo(record.digest, err=True)
    click.echo(made.output)
    build_from.write_oci(made.output, values)


def _options(values: dict[str, Any]) -> BuildOptions:
    return BuildOptions(
        base=values["base"],
        source=pip.PackageSource.of(values),
        output=values["output"],
        frozen=values["frozen"],
        ca=values["ca"],
        arch=values["arch"] or "",
    )


def _environment(words: Sequence[str], dry_run: bool, values: Mapping[str, Any]) -> None:
    """Create an environment on this machine, with Horovod compiled against its MPI, and a label."""
    if not 1 <= len(words) <= 2:
        raise UsageError(f"the folder is missing: {FORM}")
    build_from.refuse(values, OF_IMAGES, NOT_FOR_ENV)
    if dry_run:
        raise UsageError(f"--dry-run {NOT_FOR_ENV}")
    asked = _environment_options(words[0], words[1] if len(words) > 1 else "cpu", values)
    progress = phases()
    with host_environment.kept(asked):
        made = host_environment.build(asked, progress)
        with progress.phase("its test", lambda: ""):
            host_environment.prove(asked.folder, made)
            facts = environment.look(asked.folder, made.environ)
        environment.write_labels(asked.folder, facts, asked.modules, made.library)
    progress.say(_compiled(facts, made.library))
    click.echo(asked.folder)


def _into_environment(words: Sequence[str], dry_run: bool, values: Mapping[str, Any]) -> None:
    """Compile Horovod for the frameworks of an environment, and label it."""
    if len(words) != 1 or not values["into"]:
        raise UsageError(f"name one environment: {HOROVOD} --into DIR")
    build_from.refuse(values, OF_IMAGES, NOT_FOR_ENV)
    if dry_run:
        raise UsageError(f"--dry-run {NOT_FOR_ENV}")
    asked = _environment_options(words[0], "cpu", values)
    progress = phases()
    with host_environment.kept(asked):
        made, horovod = into_environment.build(asked, progress)
        progress.say(build_from.told(horovod))
        with progress.phase("its test", lambda: ""):
            host_environment.prove(asked.folder, made)
            facts = environment.look(asked.folder, made.environ)
        labels = {**facts, environment.INTO: "yes"}
        environment.write_labels(asked.folder, labels, asked.modules, made.library)
    progress.say(_compiled(facts, made.library))
    click.echo(asked.folder)


def _environment_options(
    folder: str, image: str, values: Mapping[str, Any]
) -> host_environment.EnvironmentOptions:
    return host_environment.EnvironmentOptions(
        folder=Path(folder).expanduser().absolute(),
        image=image,
        into=values["into"],
        mpi=values["mpi"],
        modules=values["module"],
        source=pip.PackageSource.of(values),
    )


def _compiled(facts: Mapping[str, str], library: str) -> str:
    horovod = f"Horovod {facts['horovod.version']}, {facts.get('horovod.controllers', '')}"
    if not library:
        return horovod
    return f"{horovod}, {facts['mpi.flavour']} {facts['mpi.version']} ({library})"
