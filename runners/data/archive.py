"""Tar files of strangers: what would leave the folder, or is no file, folder or link in it, is
refused before anything is written.

Python's own `filter="data"` came with 3.12 and late patches of 3.9 to 3.11, so it is not relied on.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path, PurePosixPath

from ..core import disk_space
from ..core.errors import Refused

MODE = 0o644


def unpack(path: Path, folder: Path) -> None:
    """Unpack a tar file, compressed or not, into `folder`, files with plain modes.

    Raises Refused for one that is hostile or damaged, SystemFault when the disk is full.
    """
    try:
        with tarfile.open(path) as tar:
            members = tar.getmembers()
            disk_space.check(folder, sum(member.size for member in members), path.name)
            for member in members:
                _check(member, path)
            for member in members:
                _extract(tar, member, folder)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Refused(f"{path.name} is no whole tar file", str(error)) from None


def _check(member: tarfile.TarInfo, path: Path) -> None:
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise Refused(f"{path.name} would write outside of its folder", member.name)
    if not (member.isreg() or member.isdir()):
        kind = "a link" if member.issym() or member.islnk() else "a device or pipe"
        raise Refused(f"{path.name} holds {kind}", f"{member.name} {member.linkname}".strip())


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    assert source is not None  # it is a regular file
    try:
        with source, target.open("xb") as file:
            while chunk := source.read(1 << 20):
                file.write(chunk)
    except OSError as error:
        raise disk_space.fault(target, error) from None
    os.chmod(target, MODE)
    os.utime(target, (member.mtime, member.mtime))
