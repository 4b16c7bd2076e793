"""Resolves where an image comes from: what is known before the download, and what writes it.

`oras://` is read here, hashed on the way, with or without a container runtime on this machine. What
has to be made into a SIF first (`docker://`) is the work of a `Convert` that the caller gives.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO, Callable, cast

from ..core import sif
from ..core.digest import digest_of
from ..core.errors import Refused, SystemFault
from ..core.progress import Progress
from . import download, http
from .reference import Reference
from .registry_client import SIF_LAYER, Blob, Registry

Write = Callable[[Path, Progress], str]
# Makes a SIF of an image for an architecture, allowed http or not, as a new file.
Convert = Callable[[Reference, str, bool, Path, Progress], None]


@dataclass(frozen=True)
class ImageSource:
    """One image, resolved.

    `write` makes the SIF as a new file and returns its digest. `key` is the same for the same
    image. `digest` of the SIF, `size` in bytes of the download and the registry's `manifest` are
    there where they are known before; `made` tells that the SIF is made here, different each time.
    `labels` asks for the labels, which are none where nobody knows them before.
    """

    key: str
    write: Write
    digest: str = ""
    size: int = 0
    manifest: str = ""
    made: bool = False
    labels: Callable[[], dict[str, str]] = dict


def resolve(reference: Reference, arch: str, plain: bool, convert: Convert) -> ImageSource:
    """Ask for the image's digest, once; raise a RunnerError that says why it cannot be had."""
    if reference.kind == "oras":
        return _oras(Registry(reference, plain), arch)
    if reference.kind == "docker":
        return _docker(Registry(reference, plain), arch, convert)
    return ImageSource(reference.source, partial(download.copy, reference.path))


def _oras(server: Registry, arch: str) -> ImageSource:
    reference = server.reference
    manifest = server.manifest(arch)
    layers = [layer for layer in manifest.layers if SIF_LAYER.fullmatch(layer.type)]
    if len(layers) != 1:
        raise Refused(
            f"{reference.source} is not a SIF file",
            "it holds " + (", ".join(layer.type for layer in manifest.layers) or "nothing"),
            reference.text.replace("oras://", "runner pull docker://"),
            id="not-a-sif",
        )
    (layer,) = layers
    return ImageSource(
        layer.digest,
        partial(from_a_registry, server, layer),
        layer.digest,
        layer.size,
        manifest.digest,
        labels=partial(_remote_labels, server, layer),
    )


def _docker(server: Registry, arch: str, convert: Convert) -> ImageSource:
    manifest = server.manifest(arch)
    if any(SIF_LAYER.fullmatch(layer.type) for layer in manifest.layers):
        text = server.reference.text.replace("docker://", "oras://")
        raise Refused(
            f"{server.reference.source} is a SIF already",
            remedy=f"runner pull {text}",
            id="sif-by-docker",
        )
    config = server.config(manifest)
    if config.get("architecture", arch) != arch:
        raise server.other_architecture(arch, str(config["architecture"]))
    reference, inner = server.reference.at(manifest.digest), config.get("config")
    labels = inner.get("Labels") if isinstance(inner, dict) else None
    return ImageSource(
        manifest.digest,
        partial(_converted, partial(convert, reference, arch, server.plain), reference.source),
        size=sum(layer.size for layer in manifest.layers),
        manifest=manifest.digest,
        made=True,
        labels=lambda: labels if isinstance(labels, dict) else {},
    )


def from_a_registry(server: Registry, layer: Blob, part: Path, progress: Progress) -> str:
    """Write a blob into a file; return the digest of what came, or raise a RunnerError."""

    def ask(have: int) -> HTTPResponse:
        if not have:
            return server.blob(layer)
        server.secret = ""  # a token may have become too old
        return server.blob(layer, f"{have}-{layer.size - 1}")

    return download.save(ask, server.reference.source, part, layer.size, progress)


def _converted(
    convert: Callable[[Path, Progress], None], name: str, part: Path, progress: Progress
) -> str:
    convert(part, progress)
    return digest_of(part, name, progress)


def _remote_labels(server: Registry, layer: Blob) -> dict[str, str]:
    try:
        return sif.labels_in(cast(BinaryIO, _RemoteFile(server, layer))) or {}
    except (sif.SifError, ValueError) as error:
        raise Refused(
            f"{server.reference.source} is no SIF", str(error), id="remote-sif-damaged"
        ) from None


class _RemoteFile:
    """Reads a blob by HTTP range (RFC 9110, 14.2), as much as is asked for; raises a RunnerError.

    That is three times for the labels of a SIF: header, table of contents (28 kB), labels.
    """

    def __init__(self, server: Registry, blob: Blob) -> None:
        self.server, self.blob, self.position = server, blob, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.position = offset + (self.blob.size if whence == os.SEEK_END else 0)
        return self.position

    def read(self, size: int) -> bytes:
        end, data, some = min(self.position + size, self.blob.size), b"", b"-"
        while some and self.position < end:  # a server may send less than was asked for
            with self.server.blob(self.blob, f"{self.position}-{end - 1}") as answer:
                if answer.status != HTTPStatus.PARTIAL_CONTENT:
                    raise SystemFault(
                        f"{self.server.host} does not support range requests",
                        id="registry-without-ranges",
                    )
                some = http.read(answer, self.server.host, end - self.position)
            data += some
            self.position += len(some)
        return data
