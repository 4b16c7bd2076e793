"""Remembers the digest of an image, and what is in it, for as long as the file stays as it is.

Reading a whole image takes seconds, too long for each launch. A file counts as unchanged when its
device, inode, size, modification and change time are the same: the last cannot be set back by who
may write the file, as `touch` sets back the modification time.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any, Callable

from ...core import digest as file_digest
from ...core import files, places
from ...core.errors import SystemFault
from ...core.progress import Progress

# Seconds that a file must have been at rest before its facts are kept. A second change within one
# tick of the file system's clock leaves no trace, nor does one through memory that a program has
# mapped, until the kernel writes it back: within 35 s (dirty_expire_centisecs, Linux).
REST = 60
FORM = 1  # of a small file; those without a number have it too
READS = 3  # of a file that changes meanwhile: a link, or chmod, touches it and not what is in it

Stamp = list[int]


def stamp(path: Path) -> Stamp:
    """Return what changes when the file does."""
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def at_rest(seen: Stamp, now: float) -> bool:
    """Tell whether a file with this stamp had been left alone for long enough, `now` in seconds."""
    return seen[4] / 1e9 + REST < now


def digest(path: Path) -> str:
    """Return the file's digest, "sha256:...", remembered or computed."""
    return recall(path) or compute_digest(path)


def compute_digest(path: Path, progress: Progress | None = None) -> str:
    """Read the whole file; remember and return its digest.

    Raises SystemFault when the file cannot be read or changes each of READS times.
    """
    try:
        for _ in range(READS):
            seen, now = stamp(path), time.time()
            if progress:
                progress.begin(f"reading {path}, whose digest is not known", seen[2])
            digest = "sha256:" + file_digest.sha256(path, progress.at if progress else None)
            if stamp(path) == seen:
                if at_rest(seen, now):
                    _remember(path, seen, digest)
                return digest
    except OSError as error:
        raise SystemFault(f"cannot read {path}", str(error), id="image-unreadable") from None
    what = f"{path} changed while it was read, {READS} times"
    raise SystemFault(
        what, remedy=f"ls -l --time-style=full-iso {shlex.quote(str(path))}", id="image-changing"
    )


def recall(path: Path) -> str:
    """Return the digest that was remembered of the file as it is now, "" for none."""
    entry = files.recall(_cache_file(path), FORM)
    return str(entry.get("digest", "")) if entry.get("stamp") == stamp(path) else ""


def record(path: Path, digest: str) -> None:
    """Remember the digest of a file that this process has just written, though not at rest."""
    _remember(path, stamp(path), digest)


def _remember(path: Path, seen: Stamp, digest: str) -> None:
    files.remember(_cache_file(path), FORM, {"path": str(path), "stamp": seen, "digest": digest})


def recall_content(digest: str) -> dict[str, Any]:
    """Return what was found inside an image with this digest; empty when nothing was."""
    return files.recall(folder() / f"{digest.replace(':', '-')}.json", FORM)


def content(digest: str, probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what is inside an image with this digest, remembered or from `probe`."""
    facts = recall_content(digest)
    if not facts:
        facts = probe()
        files.remember(folder() / f"{digest.replace(':', '-')}.json", FORM, facts)
    return facts


def folder() -> Path:
    """Return the folder of these small files: the user's own, since launches trust them.

    Not on scratch, which may be a group's.
    """
    return places.private_cache() / "images"


def _cache_file(path: Path) -> Path:
    name = file_digest.of_text(str(path.resolve()))[:32]
    return folder() / f"path-{name}.json"
