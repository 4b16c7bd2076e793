"""What `runner build` makes of a definition, or of another image with something added to it.

That is one thing: a definition, the packages of a requirements file, or Horovod. All raise
RunnerError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from containers import added_packages, apptainer, build_definition, foreign_horovod
from containers.added_packages import AddedPackages
from containers.build_definition import DefinitionBuild
from containers.definition import Base
from containers.pip import PackageSource

from ..core import disk_space, machine
from ..core.errors import Refused, UsageError
from . import local_image
from .facts import image_labels, probe_image


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
    horovod = foreign_horovod.find(foreign_horovod.of_image(base, python.python), python.packages)
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
