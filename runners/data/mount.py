"""A squashfs file as a folder, for a while, without root: by squashfuse, as Apptainer does it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import shell
from ..core.errors import Refused
from .pack import LIBEXEC

PROGRAMS = ("squashfuse_ll", "squashfuse")
UNMOUNT = ("fusermount3", "fusermount")


@contextmanager
def mounted(path: Path) -> Iterator[Path]:
    """Yield the folder; raise Refused where it cannot be mounted."""
    program = _first(PROGRAMS)
    folder = Path(tempfile.mkdtemp(prefix="runner-data-"))
    try:
        done = shell.run([program, str(path), str(folder)])
        if done.code:
            raise Refused(f"cannot mount {path}", (done.err or done.out).strip())
        try:
            yield folder
        finally:
            shell.run([_first(UNMOUNT), "-u", str(folder)])
    finally:
        folder.rmdir()


def _first(names: tuple[str, ...]) -> str:
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *LIBEXEC])
    found = [path for path in (shutil.which(name, path=folders) for name in names) if path]
    if not found:
        raise Refused(
            f"{' and '.join(names)} are not on this machine",
            "to look into a squashfs file without root",
            "unsquashfs -d DIR FILE, then runner data check DIR",
        )
    return found[0]
