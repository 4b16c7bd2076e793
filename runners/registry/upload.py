"""Uploads an image: what the registry lacks, and the manifest last.

By the OCI distribution specification 1.1, "Pushing manifests". A tag therefore points to a whole
image or to what it pointed to before.
"""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin

from ..contract.log_text import human_size
from ..core.errors import Refused, SystemFault
from ..core.progress import Progress
from . import oci
from .oci import Layout
from .registry_client import Blob, Registry

# What Apptainer writes for a SIF and reads (its pkg/sylabs/oras, 1.4).
SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
REFUSED = (400, 415, 422)  # of a manifest: the registry knows the image's parts already
OTHERWISE = """\
runner push IMAGE docker://OTHER/NAME:TAG
skopeo copy --format v2s2 docker://OTHER/NAME:TAG docker://REGISTRY/NAME:TAG"""


class Body(FileIO):
    """A file that tells how much of it has been read."""

    progress: Progress

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.progress.at(self.tell())
        return data or b""


def upload_sif(server: Registry, image: Path, digest: str, progress: Progress) -> str:
    """Upload a SIF as it is; return its manifest's digest. Raises as `upload`."""
    blob = Blob(digest, image.stat().st_size, SIF_LAYER)
    with oci.artifact({image: blob}, SIF_CONFIG) as made:
        upload(server, made, progress)
        return made.manifest.digest


def upload(server: Registry, made: Layout, progress: Progress) -> None:
    """Upload an image to the tag, or the digest, of the server's reference.

    Raises Refused for no access and for a registry that does not take such images, and SystemFault.
    """
    try:
        for blob in made.blobs:
            if not _is_there(server, blob):
                _send(server, blob, made, progress)
    except HTTPError as error:
        raise server.fault(error) from None
    _tag(server, made)


def _is_there(server: Registry, blob: Blob) -> bool:
    try:
        server.ask(f"{server.reference.repository}/blobs/{blob.digest}", method="HEAD").close()
    except HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def _send(server: Registry, blob: Blob, made: Layout, progress: Progress) -> None:
    start = server.ask(f"{server.reference.repository}/blobs/uploads/", method="POST", body=bytes)
    place = urljoin(start.url, start.headers.get("Location", ""))
    place += f"{'&' if '?' in place else '?'}digest={blob.digest}"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}

    def opened() -> Body:
        body = Body(made.path(blob))
        body.progress = progress
        return body

    progress.begin(f"uploading {blob.digest[:19]}", blob.size)
    try:
        server.ask(place, headers, "PUT", opened).close()
    except SystemFault as error:
        raise SystemFault(
            f"{server.host} ended the upload of {human_size(blob.size)}",
            f"{error.what}\n{error.evidence}",
            "again: the layers that have arrived stay there",
            id="upload-ended",
        ) from None


def _tag(server: Registry, made: Layout) -> None:
    """Give the image its tag: only now it is there for others."""
    raw = made.path(made.manifest).read_bytes()
    path = f"{server.reference.repository}/manifests/{server.reference.tag_or_digest}"
    try:
        server.ask(path, {"Content-Type": made.manifest.type}, "PUT", lambda: raw).close()
    except HTTPError as error:
        fault = server.fault(error)
        if error.code not in REFUSED:
            raise fault from None
        what = f"{server.host} takes no OCI image; the tag is as it was"
        raise Refused(what, fault.evidence, OTHERWISE, id="registry-without-oci") from None
