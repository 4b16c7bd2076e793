"""`runner build` with one definition: a user's own, or with --from on top of another image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from containers import added_packages, apptainer, build_definition, foreign_horovod, pip
from containers.added_packages import AddedPackages
from containers.build_definition import RECIPES_LABEL, DefinitionBuild
from containers.definition import Base
from containers.foreign_horovod import Horovod

from ...core import disk_space, machine
from ...core.errors import Refused, UsageError
from ...core.model import ImageInfo
from ...images import local_image
from ...images.facts import image_labels, probe_image
from ...images.trust import recorded_digest
from ..progress import phases

NEEDS_ADDITION = "name what to add: --requirements FILE, --horovod, or --def FILE"
ADDITIONS = ("requirements", "horovod", "def_file")


def build(target: str | None, dry_run: bool, values: Mapping[str, Any]) -> None:
    """Build what was asked for, or print it. Raises RunnerError."""
    image = find(values["origin"]) if values["origin"] else None
    base = Base.read(image.path, image.labels) if image else None
    definition = derived(base, values) if base else plain(Path(str(target)), values)
    disk_space.check_output(definition.output)
    if dry_run:
        click.echo(build_definition.describe(definition))
        return
    progress = phases()
    if definition.packages and isinstance(definition.packages.wanted, Horovod):
        progress.say(horovod_summary(definition.packages.wanted))
    build_definition.build(definition, progress)
    recorded_digest.remember(definition.output)
    if base and RECIPES_LABEL in base.labels:  # such an image has a bill
        progress.say(f"bill of materials: {probe_image.extract_bill(definition.output)}")
    click.echo(definition.output)


def find(name: str) -> ImageInfo:
    """The base image. Raises RunnerError."""
    image = image_labels.read(local_image.find(name))
    if image.path.is_dir():
        raise UsageError(f"--from {name} is a folder; name an image file")
    if image.architecture not in ("", machine.architecture()):
        raise Refused(
            f"{name} is for {image.architecture}, and this machine is"
            f" {machine.architecture()}.\nBuild on a machine of the image's kind."
        )
    return image


def plain(path: Path, values: Mapping[str, Any]) -> DefinitionBuild:
    """The build of a definition as it is. Raises UsageError."""
    output = (values["output"] or Path(f"{path.stem}.sif")).absolute()
    return build_definition.with_definition(None, path, values["given"], output, values["ca"])


def derived(base: Base, values: Mapping[str, Any]) -> DefinitionBuild:
    """The build on top of a base image. Raises RunnerError."""
    path = values["def_file"]
    output = (values["output"] or default_output(base.path, values)).absolute()
    if output.exists() and output.samefile(base.path):
        raise UsageError(f"--output {output} is the base image; name another file")
    if path:
        return build_definition.with_definition(base, path, values["given"], output, values["ca"])
    apptainer.require()
    python = added_packages.find_python(base)
    wanted, source = values["requirements"], pip.PackageSource.of(values)
    if wanted:
        packages = AddedPackages(base, python, wanted.absolute(), source, values["ca"])
        return build_definition.with_packages(packages, output)
    horovod = foreign_horovod.find(foreign_horovod.of_image(base, python.python), python.packages)
    packages = AddedPackages(base, python, horovod, source, values["ca"])
    facts = {**probe_image.versions(base.path), **horovod.labels()}
    return replace(build_definition.with_packages(packages, output), labels=facts)


def horovod_summary(horovod: Horovod) -> str:
    """What of the base Horovod is compiled for."""
    labels = horovod.labels()
    frameworks = f"Horovod {labels['horovod.version']} for {' and '.join(sorted(horovod.modules))}"
    mpi = "MPI and Gloo" if horovod.mpi else "Gloo alone, as there is no mpicxx"
    gpu = "GPUs by NCCL" if horovod.gpu else "CPUs, as there is no nvcc with NCCL's headers"
    return f"{frameworks}; controllers: {mpi}; for {gpu}"


def default_output(base: Path, values: Mapping[str, Any]) -> Path:
    if path := values["def_file"]:
        return Path(f"{path.stem}.sif")
    added = "horovod" if values["horovod"] else values["requirements"].stem
    return Path(f"{base.stem}-{added}.sif")
