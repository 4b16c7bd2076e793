"""Pushes an image to a registry, and looks whether what arrived is what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from ..core import sif
from ..core.digest import digest_of
from ..core.errors import NotVerified, Refused, UsageError
from ..core.progress import Progress
from ..registry.reference import Reference
from ..registry.registry_client import Registry
from ..registry.upload import upload, upload_sif
from . import oci_image

TARGETS = ("oras", "docker")


@dataclass(frozen=True)
class Pushed:
    """The digest of the SIF, of an OCI image its manifest's; and the manifest's in the registry."""

    digest: str
    manifest: str


def push(image: Path, reference: Reference, plain: bool, progress: Progress) -> Pushed:
    """Upload a SIF, as it is or as an OCI image.

    Raises Refused for what cannot be pushed there and for no access, NotVerified when something
    else arrived, and SystemFault when the server does not answer.
    """
    _check_target(reference)
    check_image(image)
    server = Registry(reference, plain, "pull,push")
    try:
        server.ask("")  # whether it answers and knows us, before anything is read
    except HTTPError as error:
        raise server.fault(error) from None
    if reference.kind == "docker":
        with oci_image.layout(image, progress) as made:
            upload(server, made, progress)
            digest = manifest = made.manifest.digest
    else:
        digest = digest_of(image, image.name, progress)
        manifest = upload_sif(server, image, digest, progress)
    stored = server.manifest("").digest
    if stored != manifest:
        raise NotVerified(
            f"{server.reference.source} is not what was sent",
            f"sent {manifest}\nthere {stored}",
            "again; somebody else may have pushed to the same tag",
            id="pushed-image-differs",
        )
    return Pushed(digest, manifest)


def _check_target(reference: Reference) -> None:
    if reference.kind not in TARGETS:
        raise Refused(
            f"nothing can be pushed to {reference.source}",
            remedy="oras://REGISTRY/NAME",
            id="push-impossible",
        )
    if reference.digest:
        raise UsageError(
            "a push goes to a tag; the digest comes out of it", remedy=":TAG", id="push-without-tag"
        )


def check_image(image: Path) -> None:
    """Raise Refused for what is no whole SIF file."""
    if image.is_dir():
        raise Refused(
            f"{image} is a sandbox folder; a registry takes a SIF",
            remedy=f"apptainer build {image}.packed.sif {image}",
            id="push-sandbox",
        )
    try:
        sif.objects(image)
    except (OSError, sif.SifError) as error:
        raise Refused(
            f"{image} is not a complete SIF file",
            str(error),
            "copy or build it again",
            id="push-image-damaged",
        ) from None
