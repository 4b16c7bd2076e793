"""An image that is not here yet: which of ours its name means, and what is known of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from containers import expected_labels
from containers.image_catalogue import FOR_ARM, IMAGES, Image

from ..core import machine, places
from ..core.machine import AMD64, ARM64
from ..core.model import ImageInfo
from ..core.remedy import Remedy, command
from . import prebuilt


def packaged(name: str) -> Image | None:
    """Return the image of ours whose file has that name; None for another name."""
    of_architectures = ((AMD64, IMAGES), (ARM64, FOR_ARM))
    images = [(listed, kind) for kind, table in of_architectures for listed in table.values()]
    file = Path(name).name
    return next(
        (listed for listed, kind in images if file == machine.file_name(listed.name, kind)), None
    )


def names() -> dict[str, str]:
    """Return the names of ours, which a launch finds wherever it is."""
    return {f"{listed.name}.sif": f"{listed.name}.sif" for listed in IMAGES.values()}


def meant(name: str) -> str:
    """Return the file's name that a word such as `gpu` or `horovod_gpu` stands for."""
    stem = name.removesuffix(".sif")
    ours = (listed for listed in IMAGES.values() if stem in (listed.short, listed.name))
    return next((f"{listed.name}.sif" for listed in ours), name)


def commands(name: str) -> list[Remedy]:
    """Return the commands that bring an image of ours to where a launch looks for it, or none."""
    of_ours = packaged(name)
    if of_ours is None:
        return []
    build = ["runner", "build", of_ours.short]
    if of_ours.architecture != machine.architecture():
        build += ["--arch", of_ours.architecture]
    if name != Path(name).name:
        return [command(*build, "--output", name)]
    has_source = bool(prebuilt.source(os.environ).text)
    return [*([command("runner", "pull", of_ours.short)] if has_source else []), command(*build)]


def image(name: str, brings: Sequence[Remedy]) -> ImageInfo:
    """Return what is known of an image that is not here: of one of ours the labels to come.

    `brings` are its `commands`, for which the site may have been asked.
    """
    own_folder = name == Path(name).name
    path = places.images() / name if own_folder else Path(name).expanduser().absolute()
    of_ours = packaged(name)
    if of_ours is None:
        return ImageInfo(path)
    labels, architecture = expected_labels.of(of_ours), of_ours.architecture
    return ImageInfo(path, labels, architecture=architecture, unbuilt=str(brings[0]))
