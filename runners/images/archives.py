"""Archives of `docker save` and of the OCI layout: for which machine they are, and unpacked.

Formats: the OCI image layout 1.0 (index.json, blobs/) and Docker's (manifest.json). The runtime
takes an archive for another architecture without a word; and Apptainer 1.4.5 wants to give the
files of an OCI archive their owners, which is root in those that rootless tools made.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core import beneath, disk_space
from ..core.errors import Refused
from ..core.files import tar_faults
from .reference import DIGEST
from .registry import LARGEST_DOCUMENT


def architecture(path: Path) -> str:
    """Return the machine that a Docker archive is for; raise Refused when it is not one."""
    with _whole(path, "docker save"), tarfile.open(path) as archive:
        manifest = _member(archive, "manifest.json")
        return str(_member(archive, manifest[0]["Config"])["architecture"])


def unpack(path: Path, folder: Path) -> str:
    """Unpack an OCI archive into the new `folder`; return the machine that it is for.

    Raises Refused when it is not one, and SystemFault when the disk is full.
    """
    with _whole(path, "OCI"):
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    _write(archive, member, folder)
        except OSError as error:
            if error.errno in disk_space.FULL:
                raise disk_space.fault(folder, error) from None
            raise
        manifest = _blob(folder, _document(folder, "index.json")["manifests"][0])
        return str(_blob(folder, manifest["config"])["architecture"])


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a plain file, whatever else the archive holds: links and owners have no use here."""
    target = folder / os.path.normpath(member.name)
    source = archive.extractfile(member) if member.isfile() else None
    if source is None:
        return
    if folder not in target.parents:
        raise ValueError(f"{member.name} would lie outside")
    if target.exists():
        raise ValueError(f"it holds {member.name} twice")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while chunk := source.read(1 << 20):
            file.write(chunk)


def _blob(folder: Path, entry: dict[str, Any]) -> Any:
    digest = str(entry["digest"])
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:100]!r} is no digest")
    return _document(folder, f"blobs/{digest.replace(':', '/')}")


def _document(folder: Path, name: str) -> Any:
    with beneath.open_file(folder, name) as file:
        return json.loads(file.read(LARGEST_DOCUMENT))


def _member(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.getmember(str(name))
    file = archive.extractfile(member) if member.isfile() else None
    return json.loads(file.read(LARGEST_DOCUMENT)) if file else {}


@contextmanager
def _whole(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except tar_faults(OSError) as error:
        what = f"{type(error).__name__}: {error}"
        raise Refused(f"{path} is not a whole {kind} archive", what, "make it again") from None
