"""A release as files in a folder: for machines without a network, and on the way to a registry.

release-VERSION.json with its signature .asc; for each image NAME-VERSION-ARCH.sif, .oci.tar (the
same as an OCI archive) and its documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.digest import sha256
from ..core.errors import NotFound, NotVerified
from ..core.progress import Progress
from ..images import archives, prebuilt
from .record import DOCUMENTS, Published, Record

SIF, OCI_ARCHIVE = "sif", "oci.tar"


@dataclass(frozen=True)
class Folder:
    """The place of a release's files."""

    path: Path

    @property
    def text(self) -> str:
        return str(self.path)

    def signed(self, version: str) -> tuple[bytes, bytes]:
        """Return a release's record and signature; raise NotFound where there is none."""
        name = prebuilt.file_of(version)
        try:
            return (self.path / name).read_bytes(), (self.path / f"{name}.asc").read_bytes()
        except OSError as error:
            there = ", ".join(self.versions()) or "none"
            raise NotFound(
                f"{self.path} has no release {version}",
                f"{error.filename}: {error.strerror}\nit has {there}",
            ) from None

    def versions(self) -> list[str]:
        names = [path.name for path in self.path.glob(prebuilt.file_of("*"))]
        return sorted(name[len("release-") : -len(".json")] for name in names)

    def uri(self, record: Record, image: Published) -> str:
        """What `runner pull` takes for an image."""
        return str(self.path / record.file(image))

    def file(self, record: Record, image: Published, ending: str) -> Path:
        return self.path / record.file(image, ending)


def check(folder: Folder, record: Record, progress: Progress) -> None:
    """Raise NotVerified for a file that is not what the record says, NotFound for a missing one."""
    for image in record.images:
        wanted = {SIF: image.digest, **image.documents}
        for ending in (SIF, *DOCUMENTS):
            path = folder.file(record, image, ending)
            _same(path, digest_of(path, progress), wanted[ending])
        path = folder.file(record, image, OCI_ARCHIVE)
        _same(path, archives.manifest_digest(path), image.oci)


def digest_of(path: Path, progress: Progress) -> str:
    """Return a file's digest; raise NotFound where there is none."""
    if not path.is_file():
        raise NotFound(f"{path} is missing")
    progress.begin(f"computing the digest of {path.name}", path.stat().st_size)
    return f"sha256:{sha256(path, progress=progress.at)}"


def _same(path: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise NotVerified(f"{path} is not what was released", f"wanted {wanted}\nfound  {found}")
