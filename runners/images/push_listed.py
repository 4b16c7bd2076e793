"""Pushes an image of ours to a source of prebuilt images, and lists it there.

The list comes last: until then nobody finds the image.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from containers.image_catalogue import IMAGES

from ..core import atomic, disk_space, sif
from ..core.digest import digest_of
from ..core.errors import NotFound, NotVerified, Refused
from ..core.progress import Progress
from ..registry import reference
from . import prebuilt, prebuilt_list, push
from .prebuilt_list import PrebuiltImage

VERSION_LABEL = "org.opencontainers.image.version"


def push_listed(path: Path, to: str, plain: bool, progress: Progress) -> tuple[str, PrebuiltImage]:
    """Push an image to the source `to`, and list it; return what `runner pull` takes for it.

    Raises Refused for an image that is not of ours, and a RunnerError for a list that is not to be
    trusted, before anything is sent.
    """
    source = prebuilt.typed(to)
    _listed(source, plain)
    image = _described(path, progress)
    uri = prebuilt_list.uri(source, image)
    if source.startswith("oras://"):
        push.push(path, reference.parse(uri), plain, progress)
    else:
        _copy(path, Path(uri), progress)
    _list(source, image, plain, progress)
    return uri, image


def _described(path: Path, progress: Progress) -> PrebuiltImage:
    """Return the image by what it says of itself; raise Refused for one that is not ours."""
    push.check_image(path)
    version = (sif.labels(path) or {}).get(VERSION_LABEL)
    architecture = sif.architecture(sif.objects(path)) or ""
    name = path.stem.removesuffix(f".{architecture}")  # of an image for other machines
    if name not in {image.name for image in IMAGES.values()} or not version:
        raise Refused(
            f"{path} is not an image of this project, and only those are listed",
            f"named {name}, version {version or 'unknown'}",
            f"runner push {path} oras://REGISTRY/NAME:TAG",
            id="image-not-listable",
        )
    digest = digest_of(path, path.name, progress)
    return PrebuiltImage(name, version, architecture, digest)


def _copy(path: Path, target: Path, progress: Progress) -> None:
    progress.begin(f"writing {target.name}")
    with disk_space.writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic.new_file(target) as part:
            shutil.copyfile(path, part)
            part.chmod(0o644)


def _list(source: str, image: PrebuiltImage, plain: bool, progress: Progress) -> None:
    listed = _listed(source, plain)
    same = {entry for entry in listed if (entry.name, entry.tag) == (image.name, image.tag)}
    for before in same - {image}:
        progress.say(f"{image.name} {image.tag} was {before.digest} until now")
    prebuilt_list.write(source, [*(set(listed) - same), image], plain, progress)
    if image not in _listed(source, plain):
        raise NotVerified(
            f"the list of {source} lacks the image that was just listed",
            remedy="again; somebody else may have listed one at the same time",
            id="list-lacks-image",
        )


def _listed(source: str, plain: bool) -> tuple[PrebuiltImage, ...]:
    try:
        return prebuilt_list.read(source, plain, "pull,push")
    except NotFound:
        return ()  # it is the first
