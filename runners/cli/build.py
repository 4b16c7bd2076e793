"""`runner build`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from containers import build, pip, process, record, single, toolbox
from containers.catalogue import IMAGES
from containers.errors import BuildError, UsageError
from containers.space import ELSEWHERE

from ..images import read_sbom
from . import build_from, build_options
from .build_phases import display

HELP = {"help_option_names": ["-h", "--help"]}
EXAMPLE = """\b
Examples:
  runner build cpu
  runner build gpu --wheelhouse /shared/wheels
  runner build my.def -o my.sif --build-arg version=3
  runner build --from horovod_cpu.sif --requirements extra.txt -o mine.sif
"""
INTERRUPTED = 130
NO_ROOM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
NO_TARGET = f"""\
name what to build: one of {", ".join(IMAGES)}, or a definition file.
An image from another: runner build --from IMAGE --requirements FILE"""
NOT_FOR_DEF = "is for our own images; a definition says itself what it starts from and takes"


@click.command("build", context_settings=HELP, epilog=EXAMPLE)
@click.argument("target", required=False)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="default: images/ on scratch")
@click.option(
    "--base",
    default="auto",
    metavar="auto|debian|IMAGE",
    help="what the image starts from: Debian packages, or an image of a registry",
)
@build_options.packages
@build_options.base_image
@click.option(
    "--ca-certificate",
    "ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="the site's own authority, trusted during the build only",
)
@click.option("--build-arg", "given", multiple=True, metavar="NAME=VALUE", help="for a DEF")
@click.option("--frozen", is_flag=True, help="refuse Debian packages other than the locked ones")
@click.option("--dry-run", is_flag=True, help="print definition and command, and stop")
@click.option("--revision", default="", hidden=True)  # from root, whose repository it is
def build_command(target: str | None, given: tuple[str, ...], dry_run: bool, **values: Any) -> None:
    """Build TARGET, one of our images (cpu, gpu) or a definition file, without root.

    Instead of TARGET, --from makes a new image from one that is there.
    """
    with failures():
        build_from.check(target, values)
        arguments = dict(map(_argument, given))
        if values["origin"]:
            build_from.build(arguments, dry_run, values)
        elif target is None:
            raise UsageError(NO_TARGET)
        elif is_definition(target):
            build_options.refuse(
                values, (*build_options.OF_OURS, *build_options.PACKAGES), NOT_FOR_DEF
            )
            _definition(Path(target), arguments, dry_run, values)
        else:
            _ours(target, given, dry_run, values)


def is_definition(target: str) -> bool:
    """Whether the target is a file; a name of ours comes first."""
    return target not in IMAGES and (target.endswith(".def") or "/" in target)


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--build-arg {text}: not NAME=VALUE")
    return name, value


@contextmanager
def failures() -> Iterator[None]:
    """Turn what a build raises into a message and an exit code."""
    try:
        with process.stoppable():
            yield
    except BuildError as error:
        click.echo(f"runner: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        remedy = ELSEWHERE if error.errno in NO_ROOM else ""
        click.echo(f"runner: {error.strerror}: {error.filename}\n{remedy}".rstrip(), err=True)
        sys.exit(BuildError.exit_code)
    except KeyboardInterrupt:
        click.echo("\nrunner: interrupted; what the build had begun is removed", err=True)
        sys.exit(INTERRUPTED)


def _ours(name: str, given: tuple[str, ...], dry_run: bool, values: dict[str, Any]) -> None:
    if given:
        raise UsageError("--build-arg is for a definition of your own; ours are given theirs")
    source = pip.Source.given(values["wheelhouse"], values["index_url"], values["extra_index_url"])
    options = build.Options(
        base=values["base"],
        source=source,
        output=values["output"],
        frozen=values["frozen"],
        ca=values["ca"],
        revision=values["revision"],
    )
    plan, progress = build.make_plan(name, options), display()
    if build.up_to_date(plan) and not dry_run:
        progress.say("nothing changed")
    elif build.is_root():
        build.delegate(plan, options, progress, dry_run)
    elif dry_run:
        click.echo(build.describe(plan, options, progress))
    else:
        build.build(plan, options, progress)
        progress.say(f"bill of materials: {read_sbom.extract(plan.output)}")
    if not dry_run:
        _say_digest(plan.output)
        click.echo(_shown(plan.output))


def _say_digest(output: Path) -> None:
    made = record.read(output)
    if made:
        click.echo(made.digest, err=True)


def _shown(output: Path) -> Path:
    return toolbox.inside(output, os.environ) if build.is_root() else output


def _definition(path: Path, given: dict[str, str], dry_run: bool, values: dict[str, Any]) -> None:
    asked = single.Single(
        text=single.read(path),
        name=path.name,
        folder=path.absolute().parent,
        output=(values["output"] or Path(f"{path.stem}.sif")).absolute(),
        given=given,
        ca=values["ca"],
    )
    single.check(asked)
    if dry_run:
        click.echo(single.describe(asked))
        return
    single.build(asked, display())
    click.echo(asked.output)
