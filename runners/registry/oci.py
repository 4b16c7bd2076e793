"""The documents of an OCI image: its manifest, its configuration, and the folder that has them.

Formats: OCI image specification 1.1 (manifest.md, image-layout.md). An artifact, such as a SIF file
for oras://, is the same with files of any kind in the place of layers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.digest import of_bytes
from .registry_client import OCI, Blob

MANIFEST, CONFIG = f"{OCI}.manifest.v1+json", f"{OCI}.config.v1+json"
LAYER = f"{OCI}.layer.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"  # the name that `oras pull` gives the file
BLOBS = Path("blobs/sha256")


@dataclass(frozen=True)
class Layout:
    """The folder of an OCI image layout, the manifest in it, and what that names."""

    folder: Path
    manifest: Blob
    blobs: tuple[Blob, ...]

    def path(self, blob: Blob) -> Path:
        return self.folder / BLOBS / blob.digest.partition(":")[2]


@contextmanager
def artifact(files: dict[Path, Blob], config_type: str, kind: str = "") -> Iterator[Layout]:
    """Yield files as an artifact (OCI image specification 1.1, "Guidelines for artifact usage").

    `kind` is its type, "" for what is known by the type of its configuration.
    """
    with TemporaryDirectory(prefix="runner-push.") as work:
        blobs = Path(work) / BLOBS
        blobs.mkdir(parents=True)
        for path, blob in files.items():
            (blobs / blob.digest.partition(":")[2]).symlink_to(path.absolute())
        config = write_document(blobs, {}, config_type)
        layers = [
            {**descriptor(blob), "annotations": {TITLE: path.name}} for path, blob in files.items()
        ]
        typed = {"artifactType": kind} if kind else {}
        manifest = write_manifest(blobs, {**typed, "config": descriptor(config), "layers": layers})
        yield Layout(Path(work), manifest, (*files.values(), config))


def descriptor(blob: Blob) -> dict[str, Any]:
    """Return what names a blob in a manifest (descriptor.md)."""
    return {"mediaType": blob.type, "digest": blob.digest, "size": blob.size}


def write_manifest(blobs: Path, content: dict[str, Any]) -> Blob:
    return write_document(blobs, {"schemaVersion": 2, "mediaType": MANIFEST, **content}, MANIFEST)


def write_document(blobs: Path, document: dict[str, Any], kind: str) -> Blob:
    """Write a JSON document, the same bytes for the same content, under its digest."""
    raw = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    digest = of_bytes(raw)
    (blobs / digest.partition(":")[2]).write_bytes(raw)
    return Blob(digest, len(raw), kind)
