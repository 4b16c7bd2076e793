"""Is the image of a launch still the file whose digest `build` or `pull` recorded?

An image that the user made by other means has no such record: nothing to compare it with.
"""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from containers import build_record

from ..core.errors import NotVerified
from ..core.progress import Progress
from ..core.remedy import Remedy, advice
from ..registry.reference import DIGEST
from .facts import digest_cache
from .store import images_lock, store

Display = Callable[[], AbstractContextManager[Progress]]


@dataclass(frozen=True)
class Recorded:
    """The recorded digest, "sha256:...", and the file's stamp as the job's script reads it.

    Both are "" where nothing was recorded.
    """

    digest: str = ""
    stamp: str = ""


def of(image: Path) -> dict[str, str]:
    """Return the recorded digests of the file with this path, by who recorded them."""
    if not image.is_file():
        return {}
    entries = images_lock.read(images_lock.here())
    recorded = {
        "its build": build_record.digest(image),
        "its name": store.digest_named(image),
        images_lock.FILE: next((e.digest for e in entries if e.name == image.name), ""),
    }
    return {origin: digest for origin, digest in recorded.items() if DIGEST.fullmatch(digest)}


def remember(image: Path) -> None:
    """Spare the first launch of an image that this process has just built a read of it."""
    digest_cache.record(image, build_record.digest(image))


def without_reading(image: Path) -> Recorded:
    """Return what was recorded, for a dry run: the file may be another one, or not pulled yet."""
    return _recorded(image, of(image)) if image.exists() else Recorded(store.digest_named(image))


def _recorded(image: Path, digests: dict[str, str]) -> Recorded:
    if not digests:
        return Recorded()
    return Recorded(next(iter(digests.values())), _as_stat_prints(digest_cache.stamp(image)))


def check(image: Path, display: Display) -> Recorded:
    """Return what was recorded; raise NotVerified when the file is another one now.

    The whole file is read only where its stamp is new, which `display` shows.
    """
    digests = of(image)
    recorded = _recorded(image, digests)
    if not digests:
        return recorded
    digest = digest_cache.recall(image)
    if not digest:
        with display() as progress:
            digest = digest_cache.compute_digest(image, progress)
    for origin, wanted in digests.items():
        if digest != wanted:
            what = f"{image} is not the file that {origin} recorded"
            raise NotVerified(
                what,
                f"recorded {wanted}\nfound    {digest}",
                _again(image, origin),
                id="image-not-as-recorded",
            )
    if _recorded(image, digests) != recorded:
        raise NotVerified(
            f"{image} changed while it was read", remedy="try again", id="image-changed-while-read"
        )
    return recorded


def _again(image: Path, origin: str) -> Remedy:
    """Return how to have it again: neither a build nor a pull replaces what seems to be there."""
    path = shlex.quote(str(image))
    stored = store.at(image)
    if stored and stored.source:
        return advice(f"rm {path} && runner pull {shlex.quote(stored.source)}")
    kept = f"; if you replaced it yourself: rm {shlex.quote(str(build_record.path(image)))}"
    return advice(f"rm {path}, then build or pull it again{kept if origin == 'its build' else ''}")


def _as_stat_prints(stamp: digest_cache.Stamp) -> str:
    """Return size and times as `stat --format '%s %.9Y %.9Z'` does.

    Without device and inode, which a network file system may number otherwise on another node.
    """
    _, _, size, *times = stamp
    return " ".join([str(size), *(f"{t // 10**9}.{t % 10**9:09d}" for t in times)])
