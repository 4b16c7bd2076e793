"""Builds images and environments, and records what they have become.

An image is a packaged one, that of a definition, or another image with one thing added: a
definition, the packages of a requirements file, or Horovod. Its digest is recorded, and so are the
labels of an environment. All raise RunnerError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from containers import (
    added_packages,
    apptainer,
    build,
    build_definition,
    build_plan,
    build_record,
    foreign_horovod,
    host_environment,
)
from containers.added_packages import AddedPackages
from containers.build_definition import DefinitionBuild
from containers.build_plan import BuildOptions, BuildPlan
from containers.build_steps import BuildProgress
from containers.definition import Base
from containers.host_environment import EnvironmentOptions, Made
from containers.image_catalogue import IMAGES

from ..core import command_signals, disk_space, files, machine
from ..core.errors import NotVerified, Refused, RunnerError, SystemFault, UsageError
from ..core.progress import Listener
from . import local_image, prebuilt, pull, recorded_digest
from .build_request import BuildKind, ImageRequest
from .facts import environment_facts, image_labels, probe_image

NO_ROOM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}


class Built(NamedTuple):
    """An image, and the digest of a packaged one.

    One that `is_current` was there already.
    """

    output: Path
    digest: str = ""
    is_current: bool = False


class BuiltWheel(NamedTuple):
    """A wheel, and its SHA-256 as sha256sum writes it."""

    path: Path
    checksum: str


@contextmanager
def _faults() -> Iterator[None]:
    """Turn an error of the system into a SystemFault; say what is left when interrupted."""
    try:
        with command_signals.saying("the incomplete build is removed"):
            yield
    except OSError as error:
        remedy = disk_space.ELSEWHERE if error.errno in NO_ROOM else ""
        raise SystemFault(
            f"{error.strerror}: {error.filename}\n{remedy}".rstrip(), id="build-system-error"
        ) from None


@_faults()
def describe_image(request: ImageRequest, progress: BuildProgress) -> str:
    """Return the definition, and the commands that would be run. Raises as `build_image`."""
    if request.kind is BuildKind.PACKAGED:
        return build.describe(_plan(request), request.options, progress)
    return build_definition.describe(definition_of(request))


@_faults()
def build_image(request: ImageRequest, progress: BuildProgress) -> Built:
    """Build an image. Raises UsageError where its file cannot be written, and RunnerError."""
    if request.kind is BuildKind.PACKAGED:
        return _build_packaged(_plan(request), request.options, progress)
    definition = definition_of(request)
    build_definition.build(definition, progress)
    recorded_digest.remember(definition.output)
    return Built(definition.output)


def _plan(request: ImageRequest) -> BuildPlan:
    made = build_plan.make(request.name, request.options)
    disk_space.check_output(made.output)
    return made


def _build_packaged(made: BuildPlan, options: BuildOptions, progress: BuildProgress) -> Built:
    is_current = build_record.is_current(made.output, made.key, made.level)
    if not is_current:
        build.build(made, options, progress)
        recorded_digest.remember(made.output)
    return Built(made.output, build_record.digest(made.output), is_current)


@_faults()
def describe_wheel(name: str, options: BuildOptions, progress: BuildProgress) -> str:
    """Return the commands that would be run for the wheel of a packaged image."""
    return build.describe(build_plan.make(name, options), options, progress, alone=True)


@_faults()
def wheel(name: str, options: BuildOptions, progress: BuildProgress) -> BuiltWheel:
    """Compile Horovod for a packaged image; the wheel is in the images folder by default."""
    made = build_plan.make(name, options)
    folder = options.output or made.output.parent
    path = build.copy_wheel(build.build_wheel(made, options, progress), folder.absolute())
    return BuiltWheel(path, files.read_text(path.with_name(f"{path.name}.sha256")).rstrip())


def find_base(name: str) -> Base:
    """Return the base image. Raises Refused for one that this machine cannot build on."""
    image = image_labels.read(local_image.find(name))
    if image.path.is_dir():
        raise UsageError(f"--from {name} is a folder; name an image file", id="base-is-folder")
    if image.architecture not in ("", machine.architecture()):
        raise Refused(
            f"{name} is for {image.architecture}, and this machine is"
            f" {machine.architecture()}.\nBuild on a machine of the image's kind.",
            id="base-architecture",
        )
    return Base.read(image.path, image.labels)


def definition_of(request: ImageRequest) -> DefinitionBuild:
    """Return the build of a definition, on top of another image if there is one.

    Without a definition of the user's it adds the packages of a requirements file, or else Horovod
    for the frameworks of that image.
    """
    level = build_plan.asked_level(request.options.level)
    made = _with_definition if request.definition else _with_packages
    return replace(made(request), level=level or build_plan.USUAL_LEVEL)


def _with_definition(request: ImageRequest) -> DefinitionBuild:
    assert request.definition
    base = find_base(request.origin) if request.origin else None
    output = _output(base, request.options.output or Path(f"{request.definition.stem}.sif"))
    path, ca = request.definition, request.options.ca
    return build_definition.with_definition(base, path, request.build_args, output, ca)


def _with_packages(request: ImageRequest) -> DefinitionBuild:
    base, options, requirements = find_base(request.origin), request.options, request.requirements
    added = requirements.stem if requirements else "horovod"
    output = _output(base, options.output or Path(f"{base.path.stem}-{added}.sif"))
    apptainer.require()
    python = added_packages.find_python(base)
    if requirements:
        wanted = requirements.absolute()
        packages = AddedPackages(base, python, wanted, options.source, options.ca)
        return build_definition.with_packages(packages, output)
    horovod = foreign_horovod.build_for(
        foreign_horovod.of_image(base, python.python), python.packages
    )
    packages = AddedPackages(base, python, horovod, options.source, options.ca)
    labels = {**probe_image.versions(base.path), **horovod.labels()}
    return replace(build_definition.with_packages(packages, output), labels=labels)


def _output(base: Base | None, path: Path) -> Path:
    """Return it absolute; raise UsageError for the base itself, or what cannot be written."""
    path = path.absolute()
    if base and path.exists() and path.samefile(base.path):
        raise UsageError(
            f"--output {path} is the base image; name another file", id="output-is-base"
        )
    disk_space.check_output(path)
    return path


@_faults()
def environment_of_lock(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Make an environment with the packages of an image's lock; return its labels."""
    with host_environment.kept(options):
        return _tested(options, host_environment.build(options, progress), {}, progress)


@_faults()
def horovod_into(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Compile Horovod for what an existing environment has; return its labels."""
    with host_environment.kept(options):
        made = host_environment.add_horovod(options, progress)
        return _tested(options, made, {environment_facts.INTO: "yes"}, progress)


def _tested(
    options: EnvironmentOptions, made: Made, labels: dict[str, str], progress: BuildProgress
) -> dict[str, str]:
    with progress.phase("its test", lambda: ""):
        host_environment.prove(options.folder, made)
        facts = {**environment_facts.probe(options.folder, made.environ), **labels}
    return environment_facts.write_labels(options.folder, facts, options.modules, made.library)


def pull_or_build(
    name: str | None, arch: str, given: Collection[str], listener: Listener, progress: BuildProgress
) -> Built:
    """Have a packaged image: the one built from this checkout, else a prebuilt one, else build.

    Raises UsageError for other images, other machines, and options `given` beside; and as
    `pull_unless_current` and `build_image`.
    """
    if name not in IMAGES or arch != machine.architecture() or given:
        raise UsageError(
            "--or-build is for cpu and gpu, as they are for this machine",
            remedy=f"runner pull {next(iter(IMAGES))} --or-build",
            id="or-build-target",
        )
    if path := pull_unless_current(name, listener):
        return Built(path)
    return build_image(ImageRequest(BuildKind.PACKAGED, name), progress)


def pull_unless_current(name: str, listener: Listener) -> Path | None:
    """Return the prebuilt image, pulled; None where the image is to be built, or is current.

    A source that does not have it, or is down, is told. Raises NotVerified for a wrong digest.
    """
    made = build_plan.make(name, BuildOptions())
    source = prebuilt.source(os.environ)
    if not source.text or build_record.is_current(made.output, made.key, made.level):
        return None
    try:
        request = pull.request_for(name, listener)
        with listener.progress() as progress:
            return pull.pull(request, progress).path
    except NotVerified:
        raise
    except RunnerError as error:
        listener.tell(str(error))
        listener.tell("building instead")
        return None
