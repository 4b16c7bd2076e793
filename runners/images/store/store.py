"""The images folder: files named after their content, and names that point to them.

`sha256-<64 digits>.sif` is an image, `.sha256-<64 digits>.json` beside it says where it came from,
`NAME.sif` is a relative link to it. A file gets its digest's name by one rename, whole and checked,
so what has such a name is whole.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...core import atomic, digest, disk_space, files, places, sif
from ...core.errors import Refused
from ...core.locks import exclusive
from ...core.progress import Progress
from ...core.text import utc
from ..facts import digest_cache

SECONDS_TO_BE_OLD = 24 * 3600
FILE = re.compile(r"sha256-([0-9a-f]{64})\.sif")


@dataclass(frozen=True)
class Stored:
    """An image of the store: "sha256:..." of the file, its size in bytes, its origin.

    `manifest` is the registry's digest that it was made from, "" without one; `pulled` a UTC time.
    """

    digest: str
    size: int
    source: str = ""
    manifest: str = ""
    pulled: str = ""

    @property
    def path(self) -> Path:
        return path_of(self.digest)


def path_of(digest: str) -> Path:
    """Return the path that an image of this digest has, be it there or not."""
    return places.images() / f"{digest.replace(':', '-')}.sif"


def _record_of(digest: str) -> Path:
    return places.images() / f".{digest.replace(':', '-')}.json"


def digest_named(path: Path) -> str:
    """Return the digest that a path of the store is named after, "" for any other path."""
    match = FILE.fullmatch(path.name)
    return f"sha256:{match.group(1)}" if match else ""


def find(digest: str) -> Stored | None:
    """Return the stored image; None when there is none, or only a damaged one."""
    path = path_of(digest)
    try:
        sif.objects(path)
        size = path.stat().st_size
    except (OSError, sif.SifError):
        return None
    record = files.read_json(_record_of(digest)) or {"size": size}
    return Stored(digest, **record) if record["size"] == size else None


def at(path: Path) -> Stored | None:
    """Return the stored image that a path is named after, None for any other path."""
    digest = digest_named(path)
    return find(digest) if digest else None


def of_manifest(manifest: str) -> Stored | None:
    """Return the newest stored image that was made from a registry's manifest, if that is known."""
    made = [stored for stored in everything() if manifest and stored.manifest == manifest]
    return max(made, key=lambda stored: stored.pulled, default=None)


def digests() -> list[str]:
    """Return the digests after which files are named, damaged ones too."""
    return sorted(filter(None, map(digest_named, files.entries(places.images()))))


def everything() -> list[Stored]:
    return [stored for stored in map(find, digests()) if stored]


def others() -> list[Path]:
    """Return the images in the folder that are not of the store: built or copied there."""
    ours = names()
    files = sorted(places.images().glob("*.sif"))
    return [path for path in files if path.name not in ours and not digest_named(path)]


def facts_of_file(path: Path) -> dict[str, Any]:
    """Return for programs what is known of an image that is not of the store."""
    size = path.stat().st_size
    return {"name": path.name, "digest": "", "size": size, "source": "", "path": str(path)}


def keep(part: Path, digest: str, source: str, manifest: str) -> Stored:
    """Give a whole, checked file its name; raise SystemFault when that cannot be written."""
    size = part.stat().st_size
    stored = Stored(digest, size, source, manifest, utc())
    record = asdict(stored)
    del record["digest"]
    with disk_space.writing(stored.path):
        part.chmod(0o755)  # as the runtime does: an image can be run as a program
        files.write_json(_record_of(digest), record)
        part.replace(stored.path)
        digest_cache.record(stored.path, digest)
    return stored


def remove(digest: str) -> None:
    path_of(digest).unlink(missing_ok=True)
    _record_of(digest).unlink(missing_ok=True)


def names() -> dict[str, str]:
    """Return the digest that each name of the store points to."""
    links = [path for path in sorted(files.entries(places.images())) if path.is_symlink()]
    names = {link.name: digest_named(Path(os.readlink(link))) for link in links}
    return {name: digest for name, digest in names.items() if digest}


def check_name(name: str) -> None:
    """Raise Refused when the name is that of a file or link which is not of the store."""
    path = places.images() / name
    if os.path.lexists(path) and name not in names():
        raise Refused(
            f"{path} already exists and was not pulled",
            remedy="--name OTHER",
            id="image-name-taken",
        )


def point(name: str, digest: str) -> str:
    """Let a name point to an image; return the digest that it had, "" for a new name."""
    check_name(name)
    before = names().get(name, "")
    link = places.images() / name
    with disk_space.writing(link), atomic.new_file(link) as part:
        part.symlink_to(path_of(digest).name)
    return before


def pulls() -> Path:
    """Return the folder of what pulls have half made: a hidden folder for each, gone with it."""
    return places.images() / ".pulls"


def pulls_lock() -> Path:
    """Return the lock file that each pull holds, and a prune wants for itself."""
    return pulls() / "all.lock"


@contextmanager
def workplace(key: str, progress: Progress, who: str = "pulls the same image") -> Iterator[Path]:
    """Be the only one at work on `key`; yield an empty folder, removed in the end.

    One that a killed pull has left is removed by the next one of the same image. Who waits is told
    what another does, `who`.
    """
    short = digest.of_text(key)[:16]
    with exclusive(pulls() / f"{short}.lock", progress, who):
        sweep_pulls(f"{short}.*")
        folder = pulls() / f"{short}.{os.uname().nodename}.{os.getpid()}"
        with disk_space.writing(folder):
            folder.mkdir(mode=0o700)  # images of others are unpacked here
        try:
            yield folder
        finally:
            _remove(folder)


def sweep_pulls(pattern: str = "*") -> list[Path]:
    """Remove the folders that killed pulls have left; return them."""
    folders = [path for path in pulls().glob(pattern) if path.is_dir()]
    left = [path for path in folders if _abandoned(path)]
    for path in left:
        _remove(path)
    return left


def _abandoned(folder: Path) -> bool:
    """Whether nobody works there: here by its process, elsewhere by its age."""
    host, _, pid = folder.name.partition(".")[2].rpartition(".")
    if host == os.uname().nodename and pid.isdigit():
        return int(pid) == os.getpid() or not Path("/proc", pid).exists()
    return time.time() - folder.stat().st_mtime > SECONDS_TO_BE_OLD


def _remove(folder: Path) -> None:
    """Remove a tree in which an image may have left folders that even we may not write."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(folder)
