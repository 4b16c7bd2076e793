"""Builds images and environments, and records what they have become.

An image is a packaged one, that of a definition, or another image with one thing added: a
definition, the packages of a requirements file, or Horovod. Its digest and its bill of materials
are recorded, and so are the labels of an environment. All raise RunnerError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from containers import (
    added_packages,
    apptainer,
    build,
    build_definition,
    build_record,
    foreign_horovod,
    host_environment,
    plan,
)
from containers.added_packages import AddedPackages
from containers.build_definition import RECIPES_LABEL, DefinitionBuild
from containers.build_steps import BuildProgress
from containers.definition import Base
from containers.host_environment import EnvironmentOptions, Made
from containers.pip import PackageSource
from containers.plan import BuildOptions, BuildPlan

from ..core import disk_space, machine
from ..core.errors import NotVerified, Refused, RunnerError, UsageError
from ..core.progress import Listener
from . import local_image, pull
from .facts import environment, image_labels, probe_image
from .release import prebuilt
from .trust import recorded_digest


def plan_image(name: str, options: BuildOptions) -> BuildPlan:
    """Return the plan of a packaged image. Raises UsageError where its file cannot be written."""
    made = plan.make(name, options)
    disk_space.check_output(made.output)
    return made


def build_packaged(made: BuildPlan, options: BuildOptions, progress: BuildProgress) -> Path | None:
    """Build the planned image; return its bill of materials, None if the image is current."""
    if build_record.is_current(made.output, made.key):
        return None
    build.build(made, options, progress)
    recorded_digest.remember(made.output)
    return probe_image.extract_bill(made.output)


def wheel(made: BuildPlan, options: BuildOptions, progress: BuildProgress) -> Path:
    """Compile Horovod for a packaged image; return the wheel, in the images folder by default."""
    folder = options.output or made.output.parent
    return build.copy_wheel(build.build_wheel(made, options, progress), folder.absolute())


def find_base(name: str) -> Base:
    """Return the base image. Raises Refused for one that this machine cannot build on."""
    image = image_labels.read(local_image.find(name))
    if image.path.is_dir():
        raise UsageError(f"--from {name} is a folder; name an image file")
    if image.architecture not in ("", machine.architecture()):
        raise Refused(
            f"{name} is for {image.architecture}, and this machine is"
            f" {machine.architecture()}.\nBuild on a machine of the image's kind."
        )
    return Base.read(image.path, image.labels)


def with_definition(
    origin: str | None,
    path: Path,
    build_args: Mapping[str, str],
    output: Path | None,
    ca: Path | None,
) -> DefinitionBuild:
    """Return the build of a definition, on top of the image `origin` if there is one."""
    base = find_base(origin) if origin else None
    output = _output(base, output or Path(f"{path.stem}.sif"))
    return build_definition.with_definition(base, path, build_args, output, ca)


def with_packages(
    origin: str,
    requirements: Path | None,
    source: PackageSource,
    output: Path | None,
    ca: Path | None,
) -> DefinitionBuild:
    """Return the build that adds the packages of a requirements file; without one, Horovod.

    Horovod is compiled for the frameworks of the image `origin`.
    """
    base = find_base(origin)
    added = requirements.stem if requirements else "horovod"
    output = _output(base, output or Path(f"{base.path.stem}-{added}.sif"))
    apptainer.require()
    python = added_packages.find_python(base)
    if requirements:
        packages = AddedPackages(base, python, requirements.absolute(), source, ca)
        return build_definition.with_packages(packages, output)
    horovod = foreign_horovod.build_for(
        foreign_horovod.of_image(base, python.python), python.packages
    )
    packages = AddedPackages(base, python, horovod, source, ca)
    labels = {**probe_image.versions(base.path), **horovod.labels()}
    return replace(build_definition.with_packages(packages, output), labels=labels)


def _output(base: Base | None, path: Path) -> Path:
    """Return it absolute; raise UsageError for the base itself, or what cannot be written."""
    path = path.absolute()
    if base and path.exists() and path.samefile(base.path):
        raise UsageError(f"--output {path} is the base image; name another file")
    disk_space.check_output(path)
    return path


def build_defined(definition: DefinitionBuild, progress: BuildProgress) -> Path | None:
    """Build it; return the bill of materials, None for an image without one. Raises RunnerError."""
    build_definition.build(definition, progress)
    recorded_digest.remember(definition.output)
    # Our images have a bill, and so have those that are made from them.
    ours = definition.base and RECIPES_LABEL in definition.base.labels
    return probe_image.extract_bill(definition.output) if ours else None


def environment_of_lock(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Make an environment with the packages of an image's lock; return its labels."""
    with host_environment.kept(options):
        return _tested(options, host_environment.build(options, progress), {}, progress)


def horovod_into(options: EnvironmentOptions, progress: BuildProgress) -> dict[str, str]:
    """Compile Horovod for what an existing environment has; return its labels."""
    with host_environment.kept(options):
        made = host_environment.add_horovod(options, progress)
        return _tested(options, made, {environment.INTO: "yes"}, progress)


def _tested(
    options: EnvironmentOptions, made: Made, labels: dict[str, str], progress: BuildProgress
) -> dict[str, str]:
    with progress.phase("its test", lambda: ""):
        host_environment.prove(options.folder, made)
        facts = {**environment.probe(options.folder, made.environ), **labels}
    return environment.write_labels(options.folder, facts, options.modules, made.library)


def pull_unless_current(name: str, listener: Listener) -> Path | None:
    """Return the prebuilt image, pulled; None where the image is to be built, or is current.

    A source that does not have it, or is down, is told. Raises NotVerified for a wrong signature
    or digest.
    """
    made = plan.make(name, BuildOptions())
    source = prebuilt.release_source(os.environ).source
    if not source or build_record.is_current(made.output, made.key):
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
