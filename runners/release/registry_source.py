"""A release in a registry: its record, and each image's files brought into a folder.

SOURCE/release:VERSION has the record and its signature, SOURCE/NAME:VERSION-ARCH the SIF, and
SOURCE/NAME-oci:VERSION-ARCH the same as an OCI image.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import disk_space
from ..core.errors import NotFound, NotVerified, Refused
from ..core.progress import Progress
from ..images import oci, reference, sources
from ..images.registry import Blob, Registry
from . import record as records
from .folder import OCI_ARCHIVE, Folder
from .record import DOCUMENTS, Published, Record

RELEASE = "release"
OF_OCI = "oci"  # a repository of its own: a tag stands for one thing
LARGEST = 8 << 20  # bytes of a document


@dataclass(frozen=True)
class InRegistry:
    """The folder of a registry that has our repositories, oras://HOST/FOLDER."""

    text: str
    plain: bool = False

    def server(self, repository: str, tag: str, action: str = "pull") -> Registry:
        return Registry(reference.parse(f"{self.text}/{repository}:{tag}"), self.plain, action)

    def signed(self, version: str) -> tuple[bytes, bytes]:
        """Return a release's record and signature; raise NotFound where there is none."""
        server = self.server(RELEASE, version)
        try:
            layers = {layer.type: layer for layer in server.manifest("").layers}
        except NotFound as error:
            there = ", ".join(sorted(server.tags())) or "none"
            raise NotFound(
                f"{self.text} has no release {version}", f"{error.message}\nit has {there}"
            ) from None
        if not {records.TYPE, records.SIGNATURE_TYPE} <= layers.keys():
            raise Refused(f"{server.reference.source} is no release", ", ".join(sorted(layers)))
        raw, signature = (
            _bytes(server, layers[kind]) for kind in (records.TYPE, records.SIGNATURE_TYPE)
        )
        return raw, signature

    def uri(self, record: Record, image: Published) -> str:
        """What `runner pull` takes for an image."""
        return f"{self.text}/{image.name}:{record.tag(image)}"


def bring(place: InRegistry, record: Record, into: Folder, progress: Progress) -> None:
    """Write all files of a release's images into a folder; raise a RunnerError."""
    for image in record.images:
        server = place.server(image.name, record.tag(image))
        path = into.file(record, image, "sif")
        source = sources.resolve(server.reference, image.architecture, place.plain)
        disk_space.check(into.path, 2 * image.size, path.name)
        source.write(path, progress)
        for ending in DOCUMENTS:
            document = _bytes(server, Blob(image.documents[ending], 0, ""))
            into.file(record, image, ending).write_bytes(document)
        _bring_oci(place, record, image, into, progress)


def _bring_oci(
    place: InRegistry, record: Record, image: Published, into: Folder, progress: Progress
) -> None:
    work = into.path / "layout"
    named = place.server(f"{image.name}-{OF_OCI}", record.tag(image))
    server = Registry(replace(named.reference, digest=image.oci), place.plain)
    blobs = work / oci.BLOBS
    blobs.mkdir(parents=True)
    manifest = server.manifest(image.architecture)
    for blob in (manifest.config, *manifest.layers):
        _write(server, blob, blobs / blob.digest.partition(":")[2], progress)
    raw = server.raw_manifest(image.oci)
    (blobs / image.oci.partition(":")[2]).write_bytes(raw)
    made = oci.Layout(work, Blob(image.oci, len(raw), oci.MANIFEST), ())
    oci.archive(made, image.name, into.file(record, image, OCI_ARCHIVE))
    shutil.rmtree(work)


def _write(server: Registry, blob: Blob, part: Path, progress: Progress) -> None:
    _check(server, blob, sources.from_a_registry(server, blob, part, progress))


def _bytes(server: Registry, blob: Blob) -> bytes:
    with server.blob(blob) as answer:
        raw = answer.read(LARGEST)
    _check(server, blob, f"sha256:{hashlib.sha256(raw).hexdigest()}")
    return raw


def _check(server: Registry, blob: Blob, came: str) -> None:
    if came != blob.digest:
        raise NotVerified(f"{server.host} sent something else than {blob.digest}", f"came {came}")
