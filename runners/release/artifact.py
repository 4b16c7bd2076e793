"""Files as an artifact of a registry: a manifest whose layers they are, perhaps about an image.

OCI image specification 1.1, "Guidelines for artifact usage" and "subject".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..images.oci import BLOBS, MANIFEST, Layout, described
from ..images.registry import Blob

EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"  # the name that `oras pull` gives the file
# What Apptainer writes for a SIF and reads (its pkg/sylabs/oras, 1.4).
SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"


@dataclass(frozen=True)
class File:
    """A file of an artifact, with its media type and its digest, "sha256:..."."""

    path: Path
    type: str
    digest: str


def layout(
    work: Path,
    kind: str,
    files: Sequence[File],
    subject: Blob | None = None,
    config_type: str = EMPTY_TYPE,
) -> Layout:
    """Return an artifact of these files, laid out in the new folder `work`.

    `kind` is its type, "" for what is known by the type of its configuration; `subject` the
    manifest that it is about.
    """
    (work / BLOBS).mkdir(parents=True)
    layers = [_linked(work, file) for file in files]
    named = zip(layers, files)
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        **({"artifactType": kind} if kind else {}),
        "config": described(config := _kept(work, EMPTY, config_type)),
        "layers": [
            {**described(blob), "annotations": {TITLE: file.path.name}} for blob, file in named
        ],
        **({"subject": described(subject)} if subject else {}),
    }
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return Layout(work, _kept(work, raw, MANIFEST), (*layers, config))


def _linked(work: Path, file: File) -> Blob:
    link = work / BLOBS / file.digest.partition(":")[2]
    link.symlink_to(file.path.absolute())
    return Blob(file.digest, file.path.stat().st_size, file.type)


def _kept(work: Path, raw: bytes, kind: str) -> Blob:
    digest = hashlib.sha256(raw).hexdigest()
    (work / BLOBS / digest).write_bytes(raw)
    return Blob(f"sha256:{digest}", len(raw), kind)
