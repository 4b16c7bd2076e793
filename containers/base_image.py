"""The image of somebody else's that a packaged image starts from: of a registry, or in a file.

A file is what `docker save`, `podman save` and `skopeo copy` write, for machines that reach no
registry. It is opened through no link, and looked at before a build of minutes begins.
"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import IO, Any, NamedTuple

from runners.core import digest, untrusted_folder
from runners.core.errors import UsageError

DOCKER, DOCKER_ARCHIVE, OCI_ARCHIVE = "docker", "docker-archive", "oci-archive"
LARGEST = 4 << 20  # bytes of a manifest, as registries have it
SAVE = {
    DOCKER_ARCHIVE: "docker save --output {file} IMAGE",
    OCI_ARCHIVE: "podman save --format oci-archive --output {file} IMAGE",
}


class BaseImage(NamedTuple):
    bootstrap: str  # Apptainer's word for where it is
    source: str  # its name in a registry, or its file
    key: str  # its content, as far as that is known

    @property
    def file(self) -> Path | None:
        return None if self.bootstrap == DOCKER else Path(self.source)


def find(name: str, architecture: str) -> BaseImage:
    """Return the base that `name` means. Raises UsageError for a file that is no such image."""
    kind, _, file = name.partition(":")
    if kind not in SAVE:
        return BaseImage(DOCKER, name, f"{DOCKER}:{name}")
    path = Path(file)
    try:
        with _open(path) as stream:
            found = _architectures(kind, stream)
    except OSError as error:
        raise _unusable(name, error.strerror or str(error)) from None
    except (tarfile.TarError, EOFError, LookupError, TypeError, ValueError) as error:
        reason = f"no image is in it that {kind} means: {error}"
        raise _unusable(name, reason, SAVE[kind].format(file=path.name)) from None
    if architecture not in found:
        raise _unusable(
            name,
            f"it is for {', '.join(sorted(found))}, and the image is to be for {architecture}",
            f"docker pull --platform linux/{architecture} IMAGE",
        )
    return BaseImage(kind, str(path.absolute()), f"{kind}:{digest.sha256(path)}")


def _unusable(name: str, reason: str, remedy: str = "ls -l FILE") -> UsageError:
    _, _, file = name.partition(":")
    return UsageError(
        f"--base {name} cannot be used",
        reason,
        remedy.replace("FILE", file or "."),
        id="base-unusable",
    )


def _open(path: Path) -> IO[bytes]:
    """Open a plain file; raise OSError for a link, a folder, or a pipe that would wait."""
    if path.is_symlink():
        raise OSError(f"it is a link, to {os.readlink(path)}; name the file itself")
    return untrusted_folder.open_file(path.parent.resolve(), path.name)


def _architectures(kind: str, stream: IO[bytes]) -> set[str]:
    """Return for which the one image of an archive is."""
    with tarfile.open(fileobj=stream) as archive:
        if kind == DOCKER_ARCHIVE:
            image = _only(_read(archive, "manifest.json"))
            return {_read(archive, image["Config"])["architecture"]}
        entry = _only(_read(archive, "index.json")["manifests"])
        manifest = _read(archive, _blob(entry))
        if "manifests" in manifest:  # of several architectures; Apptainer takes the right one
            return {entry["platform"]["architecture"] for entry in manifest["manifests"]}
        return {_read(archive, _blob(manifest["config"]))["architecture"]}


def _only(images: list[Any]) -> Any:
    if len(images) != 1:
        raise ValueError(f"{len(images)} images are in it")
    return images[0]


def _blob(entry: dict[str, str]) -> str:
    return "blobs/" + entry["digest"].replace(":", "/")


def _read(archive: tarfile.TarFile, name: str) -> Any:
    """Return a JSON document of an archive."""
    try:
        member = archive.getmember(name)
    except KeyError:
        raise ValueError(f"it has no {name}") from None
    stream = archive.extractfile(member) if member.isfile() else None
    if stream is None or member.size > LARGEST:
        raise ValueError(f"{name} is no file of JSON")
    return json.loads(stream.read())
