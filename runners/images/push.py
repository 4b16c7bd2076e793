"""Pushes an image to a registry, and looks whether what arrived is what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from containers import sif

from ..core import download, runtime_pull
from ..core.errors import NotVerified, Refused, UsageError
from ..core.progress import Progress
from . import oci, upload
from .reference import Reference
from .registry import Registry

TARGETS = ("oras", "docker", "library", "oci-archive")


@dataclass(frozen=True)
class Pushed:
    """The digest of the SIF, of an OCI image its manifest's; and that of the registry's manifest.

    It is "" where there is none.
    """

    digest: str
    manifest: str


def push(
    image: Path, reference: Reference, plain: bool, unsigned: bool, progress: Progress
) -> Pushed:
    """Upload a SIF, as it is or as an OCI image; `unsigned` lets a library take one unsigned.

    Raises Refused for what cannot be pushed there and for no access, NotVerified when something
    else arrived, and SystemFault when the server does not answer.
    """
    _check_target(reference)
    _check_image(image)
    if reference.kind == "oci-archive":
        with oci.layout(image, progress) as made:
            oci.archive(made, image.stem.lower(), reference.path)
            return Pushed(made.manifest.digest, "")
    if reference.kind == "library":
        runtime_pull.push(image, reference.text, plain, unsigned, progress)
        return Pushed(download.digest_of(image, image.name, progress), "")
    server = Registry(reference, plain, "pull,push")
    try:
        server.ask("")  # whether it answers and knows us: the runtime's own words are poor
    except HTTPError as error:
        raise server.fault(error) from None
    if reference.kind == "docker":
        return _push_oci(image, server, progress)
    digest = download.digest_of(image, image.name, progress)
    runtime_pull.push(image, reference.text, plain, unsigned, progress)
    there = server.manifest("")
    _check_arrived(server, digest, [layer.digest for layer in there.layers])
    return Pushed(digest, there.digest)


def _push_oci(image: Path, server: Registry, progress: Progress) -> Pushed:
    with oci.layout(image, progress) as made:
        upload.upload(server, made, progress)
        digest = made.manifest.digest
    _check_arrived(server, digest, [server.manifest("").digest])
    return Pushed(digest, digest)


def _check_target(reference: Reference) -> None:
    if reference.kind not in TARGETS:
        raise Refused(f"nothing can be pushed to {reference.source}", remedy="oras://REGISTRY/NAME")
    if reference.digest:
        raise UsageError("a push goes to a tag; the digest comes out of it", remedy=":TAG")


def _check_image(image: Path) -> None:
    if image.is_dir():
        raise Refused(
            f"{image} is a sandbox folder; a registry takes a SIF",
            remedy=f"apptainer build {image}.packed.sif {image}",
        )
    try:
        sif.objects(image)
    except (OSError, sif.SifError) as error:
        raise Refused(f"{image} is no whole SIF", str(error), "copy or build it again") from None


def _check_arrived(server: Registry, sent: str, there: list[str]) -> None:
    if sent not in there:
        raise NotVerified(
            f"{server.reference.source} is not what was sent",
            f"sent {sent}\nthere {', '.join(there)}",
            "again; somebody else may have pushed to the same tag",
        )
