"""A release from where it is published: verified, and the image of it that a machine needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from containers.catalogue import IMAGES

from .. import __version__
from ..core.errors import NotFound, Refused
from ..images import prebuilt, reference
from ..images.prebuilt import Place
from ..images.reference import Reference
from . import pgp
from . import record as records
from .folder import Folder
from .record import Published, Record
from .registry_source import InRegistry


@dataclass(frozen=True)
class Release:
    """A verified release, where it is, and the fingerprint of the key that signed it.

    `raw` and `signature` are its record as it came, `key` the public key, in PGP's armor.
    """

    source: Folder | InRegistry
    record: Record
    signer: str
    raw: bytes
    signature: bytes
    key: str

    def image(self, short: str, arch: str) -> tuple[Reference, Published]:
        """Return where `cpu` or `gpu` is, and what is known of it. Raises Refused."""
        found = self.record.image(IMAGES[short].name, arch)
        return reference.parse(self.source.uri(self.record, found)), found


def source(text: str, plain: bool) -> Folder | InRegistry:
    """Return the source of this name: a registry's folder, or one of a file system."""
    return InRegistry(text, plain) if text.startswith("oras://") else Folder(Path(text))


def release(place: Place, plain: bool, version: str = __version__) -> Release:
    """Return the release of a version, this one's by default.

    Raises NotFound where there is none, Refused without a key to check it with, NotVerified for a
    wrong signature, SystemFault when the source does not answer.
    """
    if not place.source:
        raise NotFound(
            "no source of prebuilt images is set",
            f'[images] source = "oras://HOST/FOLDER" in runner.toml, or {prebuilt.VARIABLE}',
            "runner build cpu",
        )
    if not place.key:
        raise Refused(
            f"the release of {place.source} cannot be verified: no public key is known here",
            f"the source is from {place.origin}",
            f'[images] key = "FILE" in runner.toml, or {prebuilt.KEY_VARIABLE}',
        )
    there = source(place.source, plain)
    raw, signature = there.signed(version)
    name = f"release {version} of {there.text}"
    signer, key = pgp.verify(raw, signature, Path(place.key), name)
    return Release(there, records.read(raw, version, name), signer, raw, signature, key)


def here(env: Mapping[str, str], plain: bool) -> Release:
    """Return the release of this version from the place that is set here; raise as `release`."""
    return release(prebuilt.place(env), plain)
