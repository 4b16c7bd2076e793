"""The image of a launch, when it is on this machine: a file, a folder, or a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core import places
from ..core.errors import NotFound
from ..core.model import ImageInfo
from . import images_lock, local, store
from .store import Stored


def on_disk(name: str | None) -> ImageInfo:
    """Return the image that `name` means, with its labels.

    A name in this folder's images.lock means the image that is recorded there. Raises a RunnerError
    that says why there is no such image.
    """
    stored = _locked(name) if name else None
    if stored:
        return of_store(stored)
    path = local.find(name)
    target = path.resolve()
    stored = store.find(store.digest_named(target)) if store.digest_named(target) else None
    return of_store(stored) if stored and stored.path == target else local.read(path)


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
        )
    return stored


def of_store(stored: Stored) -> ImageInfo:
    """Name the file by its digest: the job may start after the name has moved on."""
    return replace(local.read(stored.path), source=stored.source, digest=stored.digest)
