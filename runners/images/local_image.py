"""Finds the image of a launch on this machine, for the nodes' architecture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..core import places, trust
from ..core.errors import NotFound, Refused, RunnerError, UsageError, close, nearest
from ..core.machine import WORDS
from ..core.model import ImageInfo
from ..core.remedy import change, command
from ..sites import load
from .facts import image_labels
from .store import images_lock, store
from .store.store import Stored

ENDINGS = (".sif", ".simg")


class ImageMissing(NotFound):
    """No file has that name; `expected` is what is known of one that will have it."""

    id = "image-missing"

    expected: ImageInfo


def find(name: str | None) -> Path:
    """Return the image's path: as given, or by name in the images folder on scratch.

    Raises UsageError when none was asked for, and for another user's in the current folder under a
    name without a slash; NotFound with the nearest names when there is none.
    """
    if not name:
        raise UsageError(
            "no image was given", remedy=change(image="horovod_cpu.sif"), id="image-not-given"
        )
    if "://" in name:
        raise UsageError(
            f"{name} is not on this machine", remedy=f"runner pull {name}", id="image-not-pulled"
        )
    path = Path(name).expanduser()
    if path.exists():
        if "/" not in name:
            trust.check(path, os.environ)  # the one in the images folder may be meant
        return path.absolute()
    if (places.images() / name).exists():
        return places.images() / name
    return _missing(name)


def _missing(name: str) -> Path:
    from . import expected  # launches mostly find their image

    folder, images = Path(name).expanduser().parent, places.images()
    here = {file.name: str(file) for file in folder.glob("*.sif")}
    here |= {file.name: file.name for file in images.glob("*.sif")}
    meant = expected.meant(Path(name).name)
    known = {**expected.names(), **here}
    known = {meant: known[meant]} if meant in known else known
    near = close(meant, known)
    if near and near[0] in here:  # what is there is meant, rather than what could be built
        known = {file: known[file] for file in near if file in here}
    brings = expected.commands(name)
    remedies = brings or [change(image=known[file]) for file in near if file in known]
    looked = "looked in " + ", ".join(sorted({str(folder), str(images)}))
    error = ImageMissing(
        f"the image {name} does not exist",
        looked if brings else f"{looked}\n{nearest(meant, known)}",
        remedies
        or [change(image=file) for file in here.values()][:1]
        or expected.commands("horovod_cpu.sif"),
    )
    error.expected = expected.image(name, brings)
    raise error


def brings(name: str) -> list[str]:
    """Return the command that an image which is not here needs first.

    Raises RunnerError for one that no command takes, such as another user's.
    """
    try:
        find(name)
    except ImageMissing as missing:
        return [*filter(None, [missing.expected.unbuilt])]
    return []


def on_disk(name: str | None) -> ImageInfo:
    """Return the image that `name` means, with its labels.

    A name in this folder's images.lock means the image that is recorded there. Raises a RunnerError
    that says why there is no such image.
    """
    stored = _locked(name) if name else None
    if stored:
        return of_store(stored)
    path = find(name)
    target = path.resolve()
    stored = store.at(target)
    return of_store(stored) if stored and stored.path == target else image_labels.read(path)


def file_of(name: str) -> Path:
    """Return the file that a launch would take; a file that is no whole image as it is."""
    try:
        return on_disk(name).path
    except Refused:
        return find(name)


def of_site(name: str, env: Mapping[str, str]) -> tuple[Path, list[Path]]:
    """Return the folder of images that a site's profile names, and the images in it and below.

    Raises UsageError where it names none, NotFound where the folder is not on this machine.
    """
    folder = load.profile(name, env).folder("images", env)
    if folder is None:
        show = command("runner", "sites", "show", name)
        raise UsageError(
            f"the profile of {name} names no folder of images", "", show, id="site-without-images"
        )
    if not folder.is_dir():
        raise NotFound(
            f"the images of {name} are not on this machine",
            f"{folder} does not exist",
            id="site-images-missing",
        )
    files = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS)
    return folder, [path for path in files if path.is_file()]


def _locked(name: str) -> Stored | None:
    entry = images_lock.find(images_lock.here(), name)
    if entry is None or Path(name).exists():
        return None
    stored = store.find(entry.digest)
    if stored is None:
        raise NotFound(
            f"{name} is not on this machine as images.lock has it",
            f"{entry.digest} is not in {places.images()}",
            f"runner pull {entry.source} --name {name}",
            id="locked-image-missing",
        )
    return stored


def of_store(stored: Stored) -> ImageInfo:
    """Name the file by its digest: the job may start after the name has moved on."""
    return replace(image_labels.read(stored.path), source=stored.source, digest=stored.digest)


def for_nodes(name: str | None, image: ImageInfo, wanted: str) -> tuple[ImageInfo, str]:
    """Return the image of this name for nodes of an architecture, and why it is another one.

    `horovod_cpu.sif` and `horovod_cpu.arm64.sif` are the same image. Where the other is not there,
    or is not for these nodes, the image stays as it was asked for, without a reason.
    """
    architecture = image.architecture
    if not name or "://" in name or not wanted or architecture in ("", wanted):
        return image, ""
    for path in _others(Path(name), wanted):
        try:
            candidate = on_disk(str(path))
        except RunnerError:  # what it is missing for is told of the image that was asked for
            continue
        if candidate.architecture == wanted:
            return candidate, f"the nodes are {wanted}, for which there is {path.name}"
    return image, ""


def _others(path: Path, wanted: str) -> list[Path]:
    """Return what the image may be called for others: with the architecture, or without."""
    kind, stem = path.suffix, path.with_suffix("")
    plain = stem.with_suffix("") if stem.suffix[1:] in WORDS.values() else stem
    names = [f"{plain}.{wanted}{kind}", f"{plain}{kind}"]
    return [Path(candidate) for candidate in names if candidate != str(path)]
