"""Pushes an image to a registry, and looks whether what arrived is what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from containers import sif

from ..core import download, runtime_pull
from ..core.errors import NotVerified, Refused, UsageError
from ..core.progress import Progress
from .reference import Reference
from .registry import Registry


@dataclass(frozen=True)
class Pushed:
    """The digests of the SIF and of the manifest in the registry, "" where there is none."""

    digest: str
    manifest: str


def push(
    image: Path, reference: Reference, plain: bool, unsigned: bool, progress: Progress
) -> Pushed:
    """Upload a SIF; `unsigned` lets a library take one without a signature.

    Raises Refused for what cannot be pushed there and for no access, NotVerified when something
    else arrived, and SystemFault when the server does not answer.
    """
    _check_target(image, reference)
    _check_image(image)
    if reference.kind == "library":
        runtime_pull.push(image, reference.text, plain, unsigned, progress)
        return Pushed(download.digest_of(image, image.name, progress), "")
    server = Registry(reference, plain, "pull,push")
    try:
        server.get("")  # whether it answers and knows us: the runtime's own words are poor
    except HTTPError as error:
        raise server.fault(error) from None
    digest = download.digest_of(image, image.name, progress)
    runtime_pull.push(image, reference.text, plain, unsigned, progress)
    return _arrived(server, digest)


def _check_target(image: Path, reference: Reference) -> None:
    if reference.kind == "docker":
        text = reference.text.replace("docker://", "oras://")
        raise Refused(
            "a SIF is no Docker image; registries take it as an artefact of its own kind",
            remedy=f"runner push {image} {text}",
        )
    if reference.kind not in ("oras", "library"):
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


def _arrived(server: Registry, digest: str) -> Pushed:
    manifest = server.manifest("")
    if digest not in [layer.digest for layer in manifest.layers]:
        raise NotVerified(
            f"{server.reference.source} is not what was sent",
            f"sent {digest}\nthere {', '.join(layer.digest for layer in manifest.layers)}",
            "again; somebody else may have pushed to the same tag",
        )
    return Pushed(digest, manifest.digest)
