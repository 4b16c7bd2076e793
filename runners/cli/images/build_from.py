"""`runner build` with one definition: a user's own, or with --from on top of another image.

Also which options go with what is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from containers import added_packages, apptainer, build_definition, foreign_horovod, pip
from containers.added_packages import AddedPackages
from containers.build_definition import OURS, OneDefinition
from containers.definition import Base
from containers.foreign_horovod import Horovod

from ...core import disk_space, machine
from ...core.errors import Refused, UsageError
from ...core.model import ImageInfo
from ...images import inside, local, recorded_digest
from ..progress import display, phases

WHAT = "name what to add: --requirements FILE, --horovod, or --def FILE"
WAYS = ("requirements", "horovod", "def_file")
PACKAGES = ("wheelhouse", "index_url", "extra_index_url")
OF_OURS = ("base", "frozen", "arch")
OF_BASES = ("origin", "requirements", "def_file", "given", "horovod")  # of an image of others
OF_ENVIRONMENTS = ("into", "mpi", "module")
DEFAULTS = {"base": "auto"}


def refuse(values: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Raise UsageError for options that were given and would have no effect."""
    for name in names:
        if values[name] and values[name] != DEFAULTS.get(name):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def check(target: str | None, values: Mapping[str, Any]) -> None:
    origin, ways = values["origin"], [name for name in WAYS if values[name]]
    if origin and target:
        raise UsageError(f"{target}: --from already names the base image; {WHAT}")
    if ways and not origin:
        what = "--requirements, --horovod and --def go with --from IMAGE"
        raise UsageError(f"{what}, the base image")
    if origin and len(ways) != 1:
        raise UsageError(f"--from {origin}: {WHAT}{'; exactly one' if ways else ''}")
    if origin:
        refuse(values, OF_OURS, "is for the packaged images, not for --from")
    if ways == ["def_file"]:
        why = "is for --requirements and --horovod; a %post section sets it itself"
        refuse(values, PACKAGES, why)
    elif ways and values["given"]:
        raise UsageError("--build-arg is for --def")


def build(target: str | None, dry_run: bool, values: Mapping[str, Any]) -> None:
    """Build what was asked for, or print it. Raises RunnerError."""
    image = find(values["origin"]) if values["origin"] else None
    base = Base.read(image.path, image.labels) if image else None
    definition = derived(base, values) if base else plain(Path(str(target)), values)
    check_files(definition.output, values)
    if dry_run:
        click.echo(build_definition.describe(definition))
        return
    progress = phases()
    if definition.packages and isinstance(definition.packages.wanted, Horovod):
        progress.say(told(definition.packages.wanted))
    build_definition.build(definition, progress)
    recorded_digest.remember(definition.output)
    if base and OURS in base.labels:  # such an image has a bill
        progress.say(f"bill of materials: {inside.extract_bill(definition.output)}")
    click.echo(definition.output)
    write_oci(definition.output, values)


def check_files(output: Path, values: Mapping[str, Any]) -> None:
    """Raise UsageError when the outputs of the build cannot be written."""
    disk_space.check_new_file("--output", output, "my.sif")
    if target := values["oci"]:
        disk_space.check_new_file("--oci", target, "my.tar")
        if target.absolute() == output:
            raise UsageError(f"--oci {target} is the image; name another file")


def write_oci(image: Path, values: Mapping[str, Any]) -> None:
    """Write the image as an OCI archive too, if asked for; print its path. Raises RunnerError."""
    if target := values["oci"]:
        from ...images import push

        with display() as shown:
            made = push.archive(image, target, shown)
        click.echo(f"OCI image: {made.digest}", err=True)
        click.echo(target)


def find(name: str) -> ImageInfo:
    """The base image. Raises RunnerError."""
    image = local.read(local.find(name))
    if image.path.is_dir():
        raise UsageError(f"--from {name} is a folder; name an image file")
    if image.architecture not in ("", machine.architecture()):
        raise Refused(
            f"{name} is for {image.architecture}, and this machine is"
            f" {machine.architecture()}.\nBuild on a machine of the image's kind."
        )
    return image


def plain(path: Path, values: Mapping[str, Any]) -> OneDefinition:
    """The build of a definition as it is. Raises UsageError."""
    output = (values["output"] or Path(f"{path.stem}.sif")).absolute()
    return build_definition.with_definition(None, path, values["given"], output, values["ca"])


def derived(base: Base, values: Mapping[str, Any]) -> OneDefinition:
    """The build on top of a base image. Raises RunnerError."""
    path = values["def_file"]
    output = (values["output"] or default_output(base.path, values)).absolute()
    if output.exists() and output.samefile(base.path):
        raise UsageError(f"--output {output} is the base image; name another file")
    if path:
        return build_definition.with_definition(base, path, values["given"], output, values["ca"])
    apptainer.require()
    python = added_packages.find_python(base)
    if wanted := values["requirements"]:
        packages = AddedPackages(
            base, python, wanted.absolute(), pip.PackageSource.of(values), values["ca"]
        )
        return build_definition.with_packages(packages, output)
    horovod = foreign_horovod.find(foreign_horovod.of_image(base, python.python), python.packages)
    packages = AddedPackages(base, python, horovod, pip.PackageSource.of(values), values["ca"])
    facts = {**inside.versions(base.path), **horovod.labels()}
    return replace(build_definition.with_packages(packages, output), labels=facts)


def told(horovod: Horovod) -> str:
    """What of the base Horovod is compiled for."""
    labels = horovod.labels()
    said = f"Horovod {labels['horovod.version']} for {' and '.join(sorted(horovod.modules))}"
    mpi = "MPI and Gloo" if horovod.mpi else "Gloo alone, as there is no mpicxx"
    gpu = "GPUs by NCCL" if horovod.gpu else "CPUs, as there is no nvcc with NCCL's headers"
    return f"{said}; controllers: {mpi}; for {gpu}"


def default_output(base: Path, values: Mapping[str, Any]) -> Path:
    if path := values["def_file"]:
        return Path(f"{path.stem}.sif")
    added = "horovod" if values["horovod"] else values["requirements"].stem
    return Path(f"{base.stem}-{added}.sif")
