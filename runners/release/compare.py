"""Whether independent builders made the same images, byte for byte; which then are a release."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.digest import sha256
from ..core.errors import NotFound, NotVerified, Refused
from ..core.progress import Progress
from ..images import archives
from .folder import OCI_ARCHIVE, SIF, digest_of
from .record import BILL, LOCK, PROVENANCE, Published, Record

BUILDERS = 2  # at least, for each image


@dataclass(frozen=True)
class Prepared:
    """What one builder's provenance says of an image, and the digests that its files have."""

    folder: Path
    stem: str
    name: str
    version: str
    architecture: str
    revision: str
    builder: str
    digest: str
    oci: str
    documents: dict[str, str]

    def file(self, ending: str) -> Path:
        return self.folder / f"{self.stem}.{ending}"


def release(
    folders: Sequence[Path], progress: Progress
) -> tuple[Record, dict[str, list[Prepared]]]:
    """Return the release that builders' folders make, and each image's builders by its file name.

    Raises NotVerified when a file is not what its builder made, or builders differ; Refused when
    there are too few of them, or they built from different revisions.
    """
    by_image: dict[str, list[Prepared]] = defaultdict(list)
    for folder in folders:
        found = sorted(folder.glob(f"*.{PROVENANCE}"))
        if not found:
            raise NotFound(f"{folder} has no prepared image", "", "runner release prepare IMAGE")
        for path in found:
            prepared = _read(path, progress)
            by_image[prepared.stem].append(prepared)
    for stem, several in by_image.items():
        _agree(stem, several)
    first = [several[0] for several in by_image.values()]
    origins = {(each.version, each.revision) for each in first}
    if len(origins) > 1:
        told = "\n".join(f"{each.stem}: {each.revision}" for each in first)
        raise Refused("the images are not of one revision", told)
    (version, revision) = origins.pop()
    images = tuple(_published(several) for several in by_image.values())
    return Record(version, revision, images), dict(by_image)


def _read(path: Path, progress: Progress) -> Prepared:
    """Return what a builder says, and compare its image with that."""
    stem = path.name[: -len(f".{PROVENANCE}")]
    try:
        statement = json.loads(path.read_text(encoding="utf-8"))
        subject, predicate = statement["subject"][0], statement["predicate"]
        digest = f"sha256:{subject['digest']['sha256']}"
        asked = predicate["buildDefinition"]["externalParameters"]
        revision = _revision(predicate["buildDefinition"]["resolvedDependencies"])
        builder = predicate["runDetails"]["builder"]["id"]
        name, version = asked["image"], asked["version"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Refused(f"{path} is no provenance of ours", repr(error)) from None
    image = path.with_name(f"{stem}.{SIF}")
    found = digest_of(image, progress)
    if found != digest:
        raise NotVerified(
            f"{image} is not what {builder} built",
            f"its provenance {digest}\nfound          {found}",
        )
    documents = {end: f"sha256:{sha256(path.with_name(f'{stem}.{end}'))}" for end in (LOCK, BILL)}
    oci = archives.manifest_digest(path.with_name(f"{stem}.{OCI_ARCHIVE}"))
    arch = stem[len(f"{name}-{version}-") :]
    return Prepared(
        path.parent, stem, name, version, arch, revision, builder, digest, oci, documents
    )


def _revision(dependencies: Sequence[dict[str, Any]]) -> str:
    return next(str(e["digest"]["gitCommit"]) for e in dependencies if e.get("name") == "source")


def _agree(stem: str, several: Sequence[Prepared]) -> None:
    builders = {each.builder for each in several}
    if len(builders) < BUILDERS:
        raise Refused(
            f"{stem} was built by one alone: {', '.join(builders)}",
            f"a release wants {BUILDERS} builders that made the same bytes",
            "runner release prepare IMAGE, on another machine",
        )
    for each in several[1:]:
        if each.digest != several[0].digest:
            raise NotVerified(
                f"the builders of {stem} differ", _difference(several[0], each), "diffoscope A B"
            )
        if each.oci != several[0].oci:
            raise NotVerified(f"the OCI images of {stem} differ", f"{several[0].oci}\n{each.oci}")


def _difference(one: Prepared, other: Prepared) -> str:
    lines = [f"{each.builder}: {each.digest} at {each.revision}" for each in (one, other)]
    differ = [end for end in (LOCK, BILL) if one.documents[end] != other.documents[end]]
    where = f"their {' and '.join(differ)} differ" if differ else "lock and bill of materials agree"
    return "\n".join([*lines, where])


def _published(several: Sequence[Prepared]) -> Published:
    one = several[0]
    return Published(
        one.name,
        one.architecture,
        one.digest,
        one.file(SIF).stat().st_size,
        one.oci,
        tuple(each.builder for each in several),
        one.documents,
    )
