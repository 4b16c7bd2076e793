"""Puts a release into a registry: images, what was written about them, and the record at last.

Documents are artifacts about the SIF's manifest (OCI distribution specification 1.1, "Pushing
manifests with subject"); where a registry has no referrers API, they are listed below the tag that
the specification names for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError

from ..core.digest import sha256
from ..core.progress import Progress
from ..images import archives, oci, prebuilt
from ..images.oci import INDEX, described
from ..images.push import upload
from ..images.registry import Blob, Registry
from . import artifact
from . import record as records
from .artifact import File
from .folder import OCI_ARCHIVE, SIF, Folder
from .record import DOCUMENTS, Published, Record
from .registry_source import OF_OCI, RELEASE, InRegistry

PUSH = "pull,push"


def put(place: InRegistry, record: Record, files: Folder, progress: Progress) -> None:
    """Upload a release from a folder whose files were checked; raise a RunnerError.

    The record comes last: until then nobody finds the release.
    """
    for image in record.images:
        _put_image(place, record, image, files, progress)
    name = prebuilt.file_of(record.version)
    signed = [
        (files.path / name, records.TYPE),
        (files.path / f"{name}.asc", records.SIGNATURE_TYPE),
    ]
    with _work(files) as work:
        parts = [File(path, kind, f"sha256:{sha256(path)}") for path, kind in signed]
        made = artifact.layout(work, records.TYPE, parts)
        upload(place.server(RELEASE, record.version, PUSH), made, progress)


def _put_image(
    place: InRegistry, record: Record, image: Published, files: Folder, progress: Progress
) -> None:
    server = place.server(image.name, record.tag(image), PUSH)
    file = File(files.file(record, image, SIF), artifact.SIF_LAYER, image.digest)
    with _work(files) as work:
        made = artifact.layout(work, "", [file], config_type=artifact.SIF_CONFIG)
        upload(server, made, progress)
        sif = made.manifest
    about = [_attach(server, record, image, files, sif, ending, progress) for ending in DOCUMENTS]
    _list(server, sif, [entry for entry in about if entry], progress)
    with _work(files) as work:
        archives.unpack(files.file(record, image, OCI_ARCHIVE), work)
        named = place.server(f"{image.name}-{OF_OCI}", record.tag(image), PUSH)
        upload(named, oci.opened(work), progress)


def _attach(
    server: Registry,
    record: Record,
    image: Published,
    files: Folder,
    sif: Blob,
    ending: str,
    progress: Progress,
) -> dict[str, Any] | None:
    """Upload a document about an image; return its entry where the registry does not list it."""
    file = File(files.file(record, image, ending), DOCUMENTS[ending], image.documents[ending])
    with _work(files) as work:
        made = artifact.layout(work, file.type, [file], sif)
        own = Registry(server.reference.at(made.manifest.digest), server.plain, PUSH)
        with upload(own, made, progress) as answer:
            listed = answer.headers.get("OCI-Subject")
    return None if listed else {**described(made.manifest), "artifactType": file.type}


def _list(server: Registry, sif: Blob, entries: list[dict[str, Any]], progress: Progress) -> None:
    """List artifacts below the tag `sha256-DIGEST`, as clients do for such a registry."""
    if not entries:
        return
    path = f"{server.reference.repository}/manifests/{sif.digest.replace(':', '-')}"
    there = _listed(server, path)
    new = {entry["digest"] for entry in entries}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [*(each for each in there if each["digest"] not in new), *entries],
    }
    raw = json.dumps(index, sort_keys=True).encode()
    try:
        server.ask(path, {"Content-Type": INDEX}, "PUT", lambda: raw).close()
    except HTTPError as error:
        raise server.fault(error) from None


def _listed(server: Registry, path: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(server.ask(path, {"Accept": INDEX}).read())
    except HTTPError as error:
        if error.code == 404:
            return []
        raise server.fault(error) from None
    entries: list[dict[str, Any]] = found.get("manifests") or []
    return entries


@contextmanager
def _work(files: Folder) -> Iterator[Path]:
    """Yield an empty folder beside the files, for links to them and what is unpacked."""
    with TemporaryDirectory(prefix=".layout.", dir=files.path) as work:
        yield Path(work)
