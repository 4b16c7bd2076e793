"""A release: a signed list of a version's images with their digests, in a folder or a registry.

In a folder: release-VERSION.json with its signature .asc, and NAME-VERSION-ARCH.sif for each image.
In a registry: SOURCE/release:VERSION has the list and signature, SOURCE/NAME:VERSION-ARCH a SIF.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Union

from containers.catalogue import IMAGES

from ...core import digest as digests
from ...core import http
from ...core.errors import NotFound, NotVerified, Refused, UsageError
from ...core.toml_check import check, convert, kinds
from ...core.version import __version__
from .. import reference
from ..reference import Digest, Reference
from ..registry.api import Blob, Registry
from ..trust import pgp
from . import prebuilt
from .prebuilt import ReleaseSource

FORM = 2  # of the list; 1 was of two builders
TYPE = "application/vnd.horovod-runner.release.v1+json"
SIGNATURE_TYPE = "application/pgp-signature"
REPOSITORY = "release"
LARGEST = 8 << 20  # bytes of a list


@dataclass(frozen=True)
class ReleasedImage:
    """One image: its architecture in Go's words, digest and size in bytes of the SIF file."""

    name: str
    architecture: str
    digest: Digest
    size: int


@dataclass(frozen=True)
class Release:
    """The version of the package, the revision in its repository, the images."""

    version: str
    revision: str
    images: tuple[ReleasedImage, ...]

    def tag(self, image: ReleasedImage) -> str:
        return f"{self.version}-{image.architecture}"

    def file(self, image: ReleasedImage) -> str:
        return f"{image.name}-{self.tag(image)}.sif"

    def image(self, name: str, architecture: str) -> ReleasedImage:
        """Return one image; raise Refused where the release has none for this architecture."""
        same_name = [each for each in self.images if each.name == name]
        for each in same_name:
            if each.architecture == architecture:
                return each
        others = ", ".join(each.architecture for each in same_name) or "no architecture"
        raise Refused(
            f"release {self.version} has no {name} for {architecture}",
            f"it was published for {others}",
            f"runner build {name.rpartition('_')[2]}, on a machine of that kind",
        )


@dataclass(frozen=True)
class Folder:
    """A folder with releases."""

    path: Path

    @property
    def text(self) -> str:
        return str(self.path)

    def signed(self, version: str) -> tuple[bytes, bytes]:
        """Return a release's list and signature; raise NotFound where there is none."""
        name = prebuilt.file_of(version)
        try:
            return (self.path / name).read_bytes(), (self.path / f"{name}.asc").read_bytes()
        except OSError as error:
            versions = ", ".join(self.versions()) or "none"
            raise NotFound(
                f"{self.path} has no release {version}",
                f"{error.filename}: {error.strerror}\nit has {versions}",
            ) from None

    def versions(self) -> list[str]:
        names = [path.name for path in self.path.glob(prebuilt.file_of("*"))]
        return sorted(name[len("release-") : -len(".json")] for name in names)

    def uri(self, release: Release, image: ReleasedImage) -> str:
        """What `runner pull` takes for an image."""
        return str(self.path / release.file(image))


@dataclass(frozen=True)
class InRegistry:
    """The folder of a registry with releases, oras://HOST/FOLDER."""

    text: str
    plain: bool = False

    def server(self, repository: str, tag: str, action: str = "pull") -> Registry:
        return Registry(reference.parse(f"{self.text}/{repository}:{tag}"), self.plain, action)

    def signed(self, version: str) -> tuple[bytes, bytes]:
        """Return a release's list and signature; raise NotFound where there is none."""
        server = self.server(REPOSITORY, version)
        try:
            layers = {layer.type: layer for layer in server.manifest("").layers}
        except NotFound as error:
            versions = ", ".join(sorted(server.tags())) or "none"
            raise NotFound(
                f"{self.text} has no release {version}", f"{error.what}\nit has {versions}"
            ) from None
        if not {TYPE, SIGNATURE_TYPE} <= layers.keys():
            raise Refused(f"{server.reference.source} is no release", ", ".join(sorted(layers)))
        return _bytes(server, layers[TYPE]), _bytes(server, layers[SIGNATURE_TYPE])

    def uri(self, release: Release, image: ReleasedImage) -> str:
        """What `runner pull` takes for an image."""
        return f"{self.text}/{image.name}:{release.tag(image)}"


Source = Union[Folder, InRegistry]


@dataclass(frozen=True)
class Verified:
    """A release whose signature holds, where it is, and the fingerprint of the key that signed it.

    `raw` and `signature` are its list as it came, `key` the public key, in PGP's armor.
    """

    source: Source
    release: Release
    signer: str
    raw: bytes
    signature: bytes
    key: str

    def image(self, short: str, arch: str, wanted: str) -> tuple[Reference, ReleasedImage]:
        """Return where `cpu` or `gpu` is, and what is known of it.

        Raises Refused, and NotVerified for another digest than the wanted one, "" for any.
        """
        image = self.release.image(IMAGES[short].name, arch)
        place = reference.parse(self.source.uri(self.release, image))
        if wanted not in ("", image.digest):
            evidence = f"wanted {wanted}\nreleased {image.digest}"
            raise NotVerified(f"the digest of {place.source} is wrong", evidence)
        return place, image


def source(text: str, plain: bool) -> Source:
    """Return the source of this name: a registry's folder, or one of a file system."""
    return InRegistry(text, plain) if text.startswith("oras://") else Folder(Path(text))


def verified(place: ReleaseSource, plain: bool, version: str = __version__) -> Verified:
    """Return the release of a version, this one's by default.

    Raises NotFound where there is none, Refused without a key to check it with, NotVerified for a
    wrong signature, SystemFault when the source does not answer.
    """
    if not place.source:
        raise prebuilt.no_source()
    if not place.key:
        raise Refused(
            f"the release of {place.source} cannot be verified: no public key is known here",
            f"the source is from {place.origin}",
            f'[images] key = "FILE" in runner.toml, or {prebuilt.KEY_VARIABLE}',
        )
    origin = source(place.source, plain)
    raw, signature = origin.signed(version)
    name = f"release {version} of {origin.text}"
    signer, key = pgp.verify(raw, signature, Path(place.key), name)
    return Verified(origin, read(raw, version, name), signer, raw, signature, key)


def written(release: Release) -> bytes:
    """Return the list, the same bytes for the same release."""
    return json.dumps({"form": FORM, **asdict(release)}, indent=1, sort_keys=True).encode() + b"\n"


def read(raw: bytes, version: str, where: str) -> Release:
    """Return what a verified list says.

    Raises NotVerified when it is of another version, Refused for a form that is not known here.
    """
    try:
        content = json.loads(raw)
        form = content.pop("form", None)
    except (ValueError, AttributeError, TypeError) as error:
        raise Refused(f"{where} is not a JSON object", str(error)) from None
    if form != FORM:
        raise Refused(f"{where} is of form {form}", f"this runner reads form {FORM}")
    try:
        check(where, kinds(Release), content)
    except UsageError as error:
        raise Refused(error.what, error.evidence) from None
    release: Release = convert(Release, content)
    if release.version != version:
        raise NotVerified(
            f"{where} answers with another release than the one asked for",
            f"asked for {version}, came {release.version}",
        )
    return release


def _bytes(server: Registry, blob: Blob) -> bytes:
    """Return a small blob. A lost connection is another digest here, not a wrong signature."""
    with server.blob(blob) as answer:
        raw = http.read(answer, server.host, LARGEST)
    digest = digests.of_bytes(raw)
    if digest != blob.digest:
        raise NotVerified(f"{server.host} sent something else than {blob.digest}", f"came {digest}")
    return raw
