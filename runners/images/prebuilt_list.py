"""`prebuilt.toml`: the list of the images at a source, by which `runner pull cpu` finds one.

In a folder it is a file, and each image is NAME-VERSION-ARCH.sif beside it. In a registry it is
SOURCE/prebuilt:latest, and each image SOURCE/NAME:VERSION-ARCH. `runner push --list` writes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..core import atomic, disk_space
from ..core import digest as digests
from ..core.errors import NotFound, NotVerified, Refused
from ..core.progress import Progress
from ..core.toml_check import check, convert, toml
from ..core.version import __version__
from ..registry import http, oci, reference
from ..registry.reference import Digest, Reference
from ..registry.registry_client import Blob, Registry
from ..registry.upload import upload
from ..settings import config_files
from .prebuilt import PrebuiltSource

FILE = "prebuilt.toml"
REPOSITORY = "prebuilt"
FORM = 1
HEADING = "# Written by `runner push --list`: the images here, and the digest of each.\n"
# Of the registry's artifact, and of its one layer
TYPE, LAYER = "application/vnd.horovod-runner.prebuilt.v1", "application/toml"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
LARGEST = 1 << 20  # bytes of a list


@dataclass(frozen=True)
class PrebuiltImage:
    """One image: the version of the kit, architecture in Go's words, digest of the SIF file."""

    name: str
    version: str
    architecture: str
    digest: Digest

    @property
    def tag(self) -> str:
        return f"{self.version}-{self.architecture}"


IMAGES = tuple[PrebuiltImage, ...]


def uri(source: str, image: PrebuiltImage) -> str:
    """Return what `runner pull` takes for an image of a source."""
    if source.startswith("oras://"):
        return f"{source}/{image.name}:{image.tag}"
    return f"{source}/{image.name}-{image.tag}.sif"


def find(
    source: PrebuiltSource, name: str, architecture: str, plain: bool
) -> tuple[Reference, PrebuiltImage]:
    """Return this version's image at a source, and where it is there.

    Raises NotFound where the list has none for this architecture, and as `read`.
    """
    listed = [image for image in read(source.text, plain) if image.name == name]
    for image in listed:
        if (image.version, image.architecture) == (__version__, architecture):
            return reference.parse(uri(source.text, image)), image
    others = ", ".join(f"{image.version} for {image.architecture}" for image in listed)
    raise NotFound(
        f"{source.text} has no {name} {__version__} for {architecture}",
        f"its {FILE} lists {others or 'no such image'}\nthe source is from {source.origin}",
        f"runner build {name.rpartition('_')[2]}, on a machine of that kind",
        id="prebuilt-not-listed",
    )


def read(source: str, plain: bool, action: str = "pull") -> tuple[PrebuiltImage, ...]:
    """Return the list of a source.

    Raises NotFound where there is none, UsageError for one that another user could have written and
    for a malformed one, Refused without access, SystemFault when the registry does not answer.
    """
    if source.startswith("oras://"):
        server = _server(source, plain, action)
        content = config_files.read_toml(Path(FILE), lambda: _download(server))
    else:
        path = Path(source, FILE)
        if not os.path.lexists(path):
            raise NotFound(
                f"{source} has no {FILE}",
                "",
                "runner push --list, by who has images",
                id="list-missing",
            )
        content = config_files.read_trusted(path, os.environ)
    where, form = f"{FILE} of {source}", content.pop("form", None)
    if form != FORM:
        raise Refused(
            f"{where} is of form {form}", f"this runner reads form {FORM}", id="list-form-unknown"
        )
    check(where, {"image": IMAGES}, content)
    images: tuple[PrebuiltImage, ...] = convert(IMAGES, content.get("image", []))
    return images


def write(source: str, images: Sequence[PrebuiltImage], plain: bool, progress: Progress) -> None:
    """Put the list in the place of the one that is there, in one step; raise a RunnerError."""
    if source.startswith("oras://"):
        _upload(_server(source, plain, "pull,push"), text(images), progress)
        return
    path = Path(source, FILE)
    with disk_space.writing(path):
        atomic.write_text(path, text(images))


def text(images: Sequence[PrebuiltImage]) -> str:
    """Return the file's content, in order."""
    lines = [f"{HEADING}form = {FORM}"]
    for image in sorted(images, key=lambda image: (image.name, image.version, image.architecture)):
        lines += ["", "[[image]]"]
        lines += [f"{key} = {toml(value)}" for key, value in asdict(image).items()]
    return "\n".join(lines) + "\n"


def _server(source: str, plain: bool, action: str) -> Registry:
    return Registry(reference.parse(f"{source}/{REPOSITORY}:latest"), plain, action)


def _download(server: Registry) -> bytes:
    layers = [layer for layer in server.manifest("").layers if layer.type == LAYER]
    if len(layers) != 1:
        raise Refused(f"{server.reference.source} is no list of images", id="list-malformed")
    with server.blob(layers[0]) as answer:
        raw = http.read(answer, server.host, LARGEST)
    digest = digests.of_bytes(raw)
    if digest != layers[0].digest:
        raise NotVerified(
            f"{server.host} sent something else than {layers[0].digest}",
            f"came {digest}",
            id="list-digest",
        )
    return raw


def _upload(server: Registry, content: str, progress: Progress) -> None:
    with TemporaryDirectory(prefix="runner-list.") as folder:
        path = Path(folder, FILE)
        path.write_text(content, encoding="utf-8")
        blob = Blob(digests.of_bytes(path.read_bytes()), path.stat().st_size, LAYER)
        with oci.artifact({path: blob}, EMPTY_TYPE, TYPE) as made:
            upload(server, made, progress)
