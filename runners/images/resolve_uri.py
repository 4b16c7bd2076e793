"""The image of a launch, when it is elsewhere: pulled before the job is submitted."""

from __future__ import annotations

from dataclasses import replace

from ..core import architecture, disk_space, places, runtime_pull
from ..core.errors import NotVerified, SystemFault
from ..core.model import ImageInfo
from ..core.progress import Progress
from . import pull, reference, resolve_local, store
from .pull import Request
from .reference import Reference
from .store import Stored


def image(uri: str, ahead: bool, known_only: bool, progress: Progress) -> ImageInfo:
    """Return the image of a URI, with its labels; pull it, unless only looking `ahead`.

    With `known_only` raise NotVerified for one that is not in images.lock: a launch would write it
    there and so make it known.
    """
    found = reference.parse(uri)
    name, arch = pull.name_of(found), architecture.architecture()
    request = Request(found, name, arch, plain=runtime_pull.plain())
    if known_only and pull.locked(found) is None:
        raise NotVerified(
            f"{found.source} is not in images.lock, and the policy wants that",
            "known-digests-only is true",
            f"runner pull {uri}",
        )
    if not ahead:
        return _of_store(pull.pull(request, progress), found)
    there = pull.already(request)
    return _of_store(there.stored, found) if there else _ahead(request, progress)


def _of_store(stored: Stored, found: Reference) -> ImageInfo:
    return replace(resolve_local.of_store(stored), source=found.source)


def _ahead(request: Request, progress: Progress) -> ImageInfo:
    """Say what would be pulled; what the registry tells of it is as good as the image's labels."""
    source, path = request.reference.source, places.images() / request.name
    try:
        found = pull.source_of(request)
        labels = found.labels()
    except SystemFault as error:
        progress.say(f"would pull {source}, of which nothing is known now: {error.message}")
        return ImageInfo(path, source=source)
    size = f", {disk_space.shown(found.size)}" if found.size else ""
    progress.say(f"would pull {source}{size}, {found.manifest or 'digest unknown'}")
    if found.digest:
        path = store.path_of(found.digest)
    return ImageInfo(path, labels, source=source, digest=found.digest)
