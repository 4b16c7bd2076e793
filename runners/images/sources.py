"""Where an image comes from: what is known of it before, and how its bytes are had.

`oras://` and `https://` are read here, hashed on the way, with or without a container runtime on
this machine. What has to be made into a SIF first (`docker://`, archives), and `library://`, is the
runtime's work.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO, Callable, cast
from urllib.error import HTTPError

from ..core import beneath, disk_space, download, runtime_pull, sif
from ..core.errors import NotFound, Refused, RunnerError, SystemFault
from ..core.files import tar_faults
from ..core.progress import Progress
from . import registry
from .reference import DIGEST, Reference
from .registry import LARGEST_DOCUMENT, Blob, Registry

Write = Callable[[Path, Progress], str]


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


def resolve(reference: Reference, arch: str, plain: bool) -> ImageSource:
    """Ask for the image's digest, once; raise a RunnerError that says why it cannot be had."""
    if reference.kind == "oras":
        return _oras(Registry(reference, plain), arch)
    if reference.kind == "docker":
        return _docker(Registry(reference, plain), arch, plain)
    if reference.kind in ("https", "http"):
        return ImageSource(reference.source, partial(_from_the_web, reference))
    if reference.kind == "file":
        return ImageSource(reference.source, partial(download.copy, reference.path))
    if reference.kind == "library":
        return ImageSource(
            reference.source, partial(_by_runtime, reference.text, reference, arch, plain)
        )
    return ImageSource(reference.source, partial(_from_an_archive, reference, arch), made=True)


def _oras(server: Registry, arch: str) -> ImageSource:
    reference = server.reference
    manifest = server.manifest(arch)
    layers = [layer for layer in manifest.layers if registry.SIF_LAYER.fullmatch(layer.type)]
    if len(layers) != 1:
        raise Refused(
            f"{reference.source} is not a SIF file",
            "it holds " + (", ".join(layer.type for layer in manifest.layers) or "nothing"),
            reference.text.replace("oras://", "runner pull docker://"),
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


def _docker(server: Registry, arch: str, plain: bool) -> ImageSource:
    manifest = server.manifest(arch)
    if any(registry.SIF_LAYER.fullmatch(layer.type) for layer in manifest.layers):
        text = server.reference.text.replace("docker://", "oras://")
        raise Refused(f"{server.reference.source} is a SIF already", remedy=f"runner pull {text}")
    config = server.config(manifest)
    if config.get("architecture", arch) != arch:
        raise server.other_architecture(arch, str(config["architecture"]))
    reference = server.reference
    return ImageSource(
        manifest.digest,
        partial(_by_runtime, reference.at(manifest.digest).text, reference, arch, plain),
        size=sum(layer.size for layer in manifest.layers),
        manifest=manifest.digest,
        made=True,
        labels=lambda: _labels_of(config),
    )


def _labels_of(config: dict[str, Any]) -> dict[str, str]:
    inner = config.get("config")
    labels = inner.get("Labels") if isinstance(inner, dict) else None
    return labels if isinstance(labels, dict) else {}


def from_a_registry(server: Registry, layer: Blob, part: Path, progress: Progress) -> str:
    """Write a blob into a file; return the digest of what came, or raise a RunnerError."""

    def ask(have: int) -> HTTPResponse:
        if not have:
            return server.blob(layer)
        server.secret = ""  # a token may have become too old
        return server.blob(layer, f"{have}-{layer.size - 1}")

    return download.save(ask, server.reference.source, part, layer.size, progress)


def _from_the_web(reference: Reference, part: Path, progress: Progress) -> str:
    try:
        return download.from_web(reference.text, reference.source, part, None, progress)
    except HTTPError as error:
        raise _web_fault(reference, error) from None


def _web_fault(reference: Reference, error: HTTPError) -> RunnerError:
    told = f"HTTP {error.code} {error.reason}"
    if error.code in (401, 403):
        return Refused(f"{reference.registry} refuses access to {reference.source}", told)
    if error.code in (404, 410):
        return NotFound(f"{reference.source} is not there", told)
    return SystemFault(f"{reference.registry} failed", told)


def _by_runtime(
    text: str, reference: Reference, arch: str, plain: bool, part: Path, progress: Progress
) -> str:
    runtime_pull.pull(text, reference.source, part, arch, plain, progress)
    return download.digest_of(part, reference.source, progress)


def _from_an_archive(reference: Reference, arch: str, part: Path, progress: Progress) -> str:
    text = reference.text
    if reference.kind == "oci-archive":
        progress.begin(f"unpacking {reference.path}")
        layout = part.with_name("layout")
        there, text = unpack_archive(reference.path, layout), f"oci:{layout}"
    else:
        there = archive_architecture(reference.path)
    if there != arch:
        raise Refused(f"{reference.path} is not for {arch}", f"for {there}", registry.OTHER_ARCH)
    return _by_runtime(text, reference, arch, False, part, progress)


def _remote_labels(server: Registry, layer: Blob) -> dict[str, str]:
    try:
        return sif.labels_in(cast(BinaryIO, _RemoteFile(server, layer))) or {}
    except (sif.SifError, ValueError) as error:
        raise Refused(f"{server.reference.source} is no SIF", str(error)) from None


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
        end, data = min(self.position + size, self.blob.size), b""
        while some := self._some(end):  # a server may send less than was asked for
            data += some
            self.position += len(some)
        return data

    def _some(self, end: int) -> bytes:
        if self.position >= end:
            return b""
        with self.server.blob(self.blob, f"{self.position}-{end - 1}") as answer:
            if answer.status != HTTPStatus.PARTIAL_CONTENT:
                raise SystemFault(f"{self.server.host} does not support range requests")
            return answer.read(end - self.position)


def archive_architecture(path: Path) -> str:
    """Return the machine that a Docker archive is for; raise Refused when it is not one."""
    with _whole(path, "docker save"), tarfile.open(path) as archive:
        manifest = _member(archive, "manifest.json")
        return str(_member(archive, manifest[0]["Config"])["architecture"])


def unpack_archive(path: Path, folder: Path) -> str:
    """Unpack an OCI archive into the new `folder`; return the machine that it is for.

    Raises Refused when it is not one, and SystemFault when the disk is full.
    """
    with _whole(path, "OCI"):
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    _write(archive, member, folder)
        except OSError as error:
            if error.errno in disk_space.FULL:
                raise disk_space.fault(folder, error) from None
            raise
        manifest = _blob(folder, _document(folder, "index.json")["manifests"][0])
        return str(_blob(folder, manifest["config"])["architecture"])


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a plain file, whatever else the archive holds: links and owners have no use here."""
    # Of the whole path: FOLDER/../x has FOLDER among its parents.
    target = Path(os.path.normpath(folder / member.name))
    source = archive.extractfile(member) if member.isfile() else None
    if source is None:
        return
    if folder not in target.parents:
        raise ValueError(f"{member.name} would lie outside")
    if target.exists():
        raise ValueError(f"it holds {member.name} twice")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while chunk := source.read(1 << 20):
            file.write(chunk)


def _blob(folder: Path, entry: dict[str, Any]) -> Any:
    digest = str(entry["digest"])
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:100]!r} is no digest")
    return _document(folder, f"blobs/{digest.replace(':', '/')}")


def _document(folder: Path, name: str) -> Any:
    with beneath.open_file(folder, name) as file:
        return json.loads(file.read(LARGEST_DOCUMENT))


def _member(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.getmember(str(name))
    file = archive.extractfile(member) if member.isfile() else None
    return json.loads(file.read(LARGEST_DOCUMENT)) if file else {}


@contextmanager
def _whole(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except tar_faults(OSError) as error:
        what = f"{type(error).__name__}: {error}"
        raise Refused(f"{path} is not a whole {kind} archive", what, "make it again") from None
