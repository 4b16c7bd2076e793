"""What a release holds: the JSON file that its maintainers sign, and that a pull verifies."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from ..core.errors import NotVerified, Refused, UsageError
from ..core.toml_check import Rule, check, kinds, made
from ..images.reference import DIGEST

FORM = 1  # of the file
TYPE = "application/vnd.horovod-runner.release.v1+json"
SIGNATURE_TYPE = "application/pgp-signature"
LOCK, BILL, PROVENANCE = "lock", "cdx.json", "intoto.json"
# Beside an image: the ending of the file's name -> its media type.
DOCUMENTS = {
    LOCK: "text/plain",
    BILL: "application/vnd.cyclonedx+json",
    PROVENANCE: "application/vnd.in-toto+json",
}
Digest = Annotated[str, Rule("sha256: and 64 hexadecimal digits", DIGEST.fullmatch)]


@dataclass(frozen=True)
class Published:
    """One image of a release.

    `architecture` is in Go's words; `digest` and `size` in bytes are the SIF file's, `oci` is the
    manifest's of the same as an OCI image; `builders` made the same bytes, each on its own.
    `documents` has the digests of its lock, bill of materials and provenance, by the file's ending.
    """

    name: str
    architecture: str
    digest: Digest
    size: int
    oci: Digest
    builders: tuple[str, ...]
    documents: dict[str, Digest]


@dataclass(frozen=True)
class Record:
    """One release: the version of the package, the revision in its repository, the images."""

    version: str
    revision: str
    images: tuple[Published, ...]

    def tag(self, image: Published) -> str:
        """The image's tag in a registry: an image is pushed where it was built."""
        return f"{self.version}-{image.architecture}"

    def file(self, image: Published, ending: str = "sif") -> str:
        """The name of the image's file in a folder, or of a document of it."""
        return f"{image.name}-{self.tag(image)}.{ending}"

    def image(self, name: str, architecture: str) -> Published:
        """Return one image; raise Refused where the release has it not for this architecture."""
        there = [each for each in self.images if each.name == name]
        for each in there:
            if each.architecture == architecture:
                return each
        others = ", ".join(each.architecture for each in there) or "no architecture"
        raise Refused(
            f"release {self.version} has no {name} for {architecture}",
            f"it was published for {others}",
            f"runner build {name.rpartition('_')[2]}, on a machine of that kind",
        )


def written(record: Record) -> bytes:
    """Return the file's content, the same for the same release."""
    return json.dumps({"form": FORM, **asdict(record)}, indent=1, sort_keys=True).encode() + b"\n"


def read(raw: bytes, version: str, where: str) -> Record:
    """Return what a verified file says.

    Raises NotVerified when it is of another version, Refused for a form that is not known here.
    """
    try:
        content = json.loads(raw)
        form = content.pop("form", None)
    except (ValueError, AttributeError, TypeError) as error:
        raise Refused(f"{where} is no JSON object", str(error)) from None
    if form != FORM:
        raise Refused(f"{where} is of form {form}", f"this runner reads form {FORM}")
    try:
        check(where, kinds(Record), content)
    except UsageError as error:
        raise Refused(error.message, error.evidence) from None
    record: Record = made(Record, content)
    if record.version != version:
        raise NotVerified(
            f"{where} answers with another release than the one asked for",
            f"asked for {version}, came {record.version}",
        )
    return record
