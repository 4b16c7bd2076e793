"""Folders for what is half made: one for each pull, hidden, gone with it.

A pull that was killed leaves its folder behind; the next one of the same image removes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import places
from ..core.errors import SystemFault
from ..core.locks import alone
from ..core.progress import Progress

SECONDS_TO_BE_OLD = 24 * 3600


def root() -> Path:
    """Return the folder of all of them."""
    return places.images() / ".pulls"


def everybody() -> Path:
    """Return the lock file that each pull holds, and a prune wants for itself."""
    return root() / "all.lock"


@contextmanager
def workplace(key: str, progress: Progress) -> Iterator[Path]:
    """Be the only one at work on `key`; yield an empty folder, removed in the end."""
    short = hashlib.sha256(key.encode()).hexdigest()[:16]
    with alone(root() / f"{short}.lock", progress, "pulls the same image"):
        sweep(f"{short}.*")
        folder = root() / f"{short}.{socket.gethostname()}.{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            raise SystemFault(f"cannot write {folder}", str(error.strerror)) from None
        try:
            yield folder
        finally:
            _remove(folder)


def sweep(pattern: str = "*") -> list[Path]:
    """Remove the folders that killed pulls have left; return them."""
    folders = [path for path in root().glob(pattern) if path.is_dir()]
    left = [path for path in folders if _abandoned(path)]
    for path in left:
        _remove(path)
    return left


def _abandoned(folder: Path) -> bool:
    """Whether nobody works there: here by its process, elsewhere by its age."""
    host, _, pid = folder.name.partition(".")[2].rpartition(".")
    if host == socket.gethostname() and pid.isdigit():
        return int(pid) == os.getpid() or not Path("/proc", pid).exists()
    return time.time() - folder.stat().st_mtime > SECONDS_TO_BE_OLD


def _remove(folder: Path) -> None:
    """Remove a tree in which an image may have left folders that even we may not write."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(folder)
