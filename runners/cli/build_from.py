"""`runner build --from IMAGE`: an image made from another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from containers import inherit, pip, single
from containers.derive import Base
from containers.errors import Refused, UsageError
from containers.single import Single

from ..core import architecture
from ..images import local, read_sbom
from . import build_options
from .build_phases import display

WHAT = "say what to add to it: --requirements FILE, or --def FILE"


def check(target: str | None, values: Mapping[str, Any]) -> None:
    """Raise UsageError for options that contradict each other."""
    origin, wanted, path = values["origin"], values["requirements"], values["def_file"]
    if origin and target:
        raise UsageError(f"{target}: --from says what to start from; {WHAT}")
    if (wanted or path) and not origin:
        raise UsageError("--requirements and --def go with --from IMAGE, the image to start from")
    if origin and bool(wanted) == bool(path):
        raise UsageError(f"--from {origin}: {WHAT}{'; not both' if wanted else ''}")
    if origin:
        build_options.refuse(values, build_options.OF_OURS, "is for our own images, not for --from")
    if origin and path:
        build_options.refuse(
            values, build_options.PACKAGES, "is for --requirements; a %post says it itself"
        )


def build(given: Mapping[str, str], dry_run: bool, values: Mapping[str, Any]) -> None:
    """Build what was asked for, or print it. Raises BuildError, RunnerError."""
    if values["requirements"] and given:
        raise UsageError("--build-arg is for --def")
    base = find(values["origin"])
    asked = plan(base, given, values)
    if asked.output.exists() and asked.output.samefile(base.path):
        raise UsageError(f"--output {asked.output} is the image to start from; name another file")
    single.check(asked)
    if dry_run:
        click.echo(single.describe(asked))
        return
    progress = display()
    single.build(asked, progress)
    if "horovod.version" in base.labels:
        progress.say(f"bill of materials: {read_sbom.extract(asked.output)}")
    click.echo(asked.output)


def find(name: str) -> Base:
    """The image to start from. Raises RunnerError, Refused."""
    found = local.read(local.find(name))
    if found.path.is_dir():
        raise UsageError(f"--from {name} is a folder; name an image file")
    here = architecture.architecture()
    if found.architecture not in ("", here):
        raise Refused(
            f"{name} is for {found.architecture}, and this machine is {here}.\n"
            "Build on a machine of the image's kind."
        )
    return inherit.read_base(found.path, found.labels)


def plan(base: Base, given: Mapping[str, str], values: Mapping[str, Any]) -> Single:
    """The build. Raises BuildError."""
    wanted, path, output = values["requirements"], values["def_file"], values["output"]
    if path:
        output = output or Path(f"{path.stem}.sif")
        return inherit.with_definition(base, path, given, output.absolute(), values["ca"])
    output = output or Path(f"{base.path.stem}-{wanted.stem}.sif")
    source = pip.Source.given(values["wheelhouse"], values["index_url"], values["extra_index_url"])
    return inherit.with_packages(base, wanted, source, output.absolute(), values["ca"])
