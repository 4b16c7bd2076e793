"""Which stored images are in use; `runner images prune` removes the others, and nothing else.

Each images.lock that a pull wrote, and each run that was launched with a stored image, has a link
here; a dangling one counts for nothing and is removed.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import digest, disk_space, job_record, places
from ...core.job_record import JobPaths
from ...core.locks import try_exclusive
from ...jobs import job_status
from . import images_lock, store

LOCK, RUN = "lock", "run"


def root() -> Path:
    return places.images() / ".roots"


def hold_lock(path: Path) -> None:
    """Keep the images of an images.lock for as long as it names them."""
    _hold(LOCK, path)


def hold_run(folder: Path, digest: str) -> None:
    """Keep an image until the run in `folder` has ended.

    In a folder of images that is not ours to write, nor to prune, its owner has to take care.
    """
    if os.access(places.images(), os.W_OK):
        _hold(f"{RUN}-{digest.partition(':')[2]}", folder)


def _hold(kind: str, path: Path) -> None:
    link = root() / f"{kind}.{digest.of_text(os.fspath(path))[:16]}"
    # Another process may just make the same link.
    with disk_space.writing(link), contextlib.suppress(FileExistsError):
        root().mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(path)


@dataclass(frozen=True)
class NamedImage:
    """A stored image by one of its names, "" without any; `users` are its lock files and runs."""

    name: str
    stored: store.Stored
    users: tuple[Path, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The image for programs."""
        users = [str(user) for user in self.users]
        known = {"name": self.name, **vars(self.stored)}
        return {**known, "path": str(self.stored.path), "used_by": users}


def named_images() -> list[NamedImage]:
    """Return the stored images, once for each of their names."""
    names, users = defaultdict(list), defaultdict(list)
    for name, held in store.names().items():
        names[held].append(name)
    for held, user in holders(ask=False):
        users[held].append(user)
    return [
        NamedImage(name, stored, tuple(dict.fromkeys(users[stored.digest])))
        for stored in store.everything()
        for name in names[stored.digest] or [""]
    ]


def holders(ask: bool) -> Iterator[tuple[str, Path]]:
    """Yield each held digest with what holds it: an images.lock or a run that has not ended.

    With `ask` the scheduler is asked about runs without a known end; raises SystemFault when it
    does not answer.
    """
    for link in sorted(root().glob("*.*")):
        target = Path(os.readlink(link))
        if link.name.startswith(f"{LOCK}."):
            yield from ((entry.digest, target) for entry in images_lock.read(target))
        elif _goes_on(target, ask):
            yield f"sha256:{link.name[len(RUN) + 1 :].partition('.')[0]}", target


def _goes_on(folder: Path, ask: bool) -> bool:
    paths = JobPaths(folder)
    if not paths.job.is_file():
        return folder.is_dir()
    job = job_record.load(paths)
    if ask:
        return not job_status.status(paths, job).state.ended
    return not job.state and job_record.exit_code(paths) is None


@dataclass(frozen=True)
class Pruned:
    """The digests of the removed images, the bytes they had, and leftovers of killed pulls."""

    digests: tuple[str, ...]
    size: int
    leftovers: int


def prune(dry_run: bool) -> Pruned:
    """Remove, or with `dry_run` only find, the files of the store that nothing needs.

    Needed is what a name in the folder points to, what an images.lock written by `runner pull`
    names, and what a run needs that has not ended. Raises Refused while a pull goes on, and
    SystemFault when the scheduler does not answer.
    """
    with try_exclusive(store.pulls_lock(), "a pull is going on here"):
        needed = {*store.names().values(), *(digest for digest, _ in holders(ask=True))}
        unused = [digest for digest in store.digests() if digest not in needed]
        size = sum(store.path_of(digest).stat().st_size for digest in unused)
        if dry_run:
            return Pruned(tuple(unused), size, 0)
        for digest in unused:
            store.remove(digest)
        for link in root().glob("*.*"):
            if not link.exists():  # it is dangling
                link.unlink()
        return Pruned(tuple(unused), size, len(store.sweep_pulls()))
