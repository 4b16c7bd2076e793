"""`images.lock`: which image was pulled from where, and the digest that it had.

A TOML file of `[[image]]` tables in the project's folder, beside runner.toml, to be committed with
the project. Pulls write it; `verify` and launches read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from ...core import atomic, digest, disk_space
from ...core.errors import Refused
from ...core.locks import exclusive
from ...core.progress import Progress
from ...core.toml_check import Rule, check, convert, toml
from ...registry.reference import Digest, is_image_name
from ...settings import config_files
from . import store

FILE = "images.lock"
OPTIONAL = "manifest"
# Names and digests become files' names in the images folder.
Name = Annotated[str, Rule("a file's name that ends in .sif", is_image_name)]
FORM = 1  # of the file; those without a number have it too
HEADING = "# Written by `runner pull`: each image, where it came from, and what it was.\n"


@dataclass(frozen=True)
class LockedImage:
    """One image.

    `source` is the URI as asked, `digest` "sha256:..." of the SIF file, `size` in bytes, `pulled`
    a UTC time such as 2026-11-21T10:00:00Z. `manifest` is the registry's own digest, not written
    where there is none: an image made from docker:// comes out different each time it is made.
    """

    name: Name
    source: str
    digest: Digest
    size: int
    pulled: str
    manifest: str = ""


IMAGES = tuple[LockedImage, ...]


def here() -> Path:
    """Return the path of this folder's images.lock, be it there or not."""
    return Path.cwd() / FILE


def read(path: Path) -> tuple[LockedImage, ...]:
    """Return the entries, none where there is no file; raise UsageError for a malformed one."""
    if not os.path.lexists(path):
        return ()
    content = config_files.read_trusted(path)
    form = content.pop("form", FORM)
    if form != FORM:
        raise Refused(
            f"{path} is of form {form}", f"this runner reads form {FORM}", id="images-lock-form"
        )
    check(path, {"image": IMAGES}, content)
    entries: tuple[LockedImage, ...] = convert(IMAGES, content.get("image", []))
    return entries


def find(path: Path, name: str) -> LockedImage | None:
    return next((entry for entry in read(path) if entry.name == name), None)


def record(path: Path, entry: LockedImage) -> None:
    """Add `entry`, or put it in the place of the one with its name; safe in parallel pulls.

    Raises UsageError for a malformed file, which stays as it is, and SystemFault when the file
    cannot be written.
    """
    lock = store.pulls() / f"{digest.of_text(str(path))[:16]}.lock"
    with disk_space.writing(path), exclusive(lock, Progress(), "pulls too"):
        others = [known for known in read(path) if known.name != entry.name]
        atomic.write_text(path, text([*others, entry]))


def text(entries: Iterable[LockedImage]) -> str:
    """Return the file's content, ordered by name."""
    lines = [f"{HEADING}form = {FORM}"]
    for entry in sorted(entries, key=lambda entry: entry.name):
        values = asdict(entry).items()
        lines += ["", "[[image]]"]
        lines += [f"{key} = {toml(value)}" for key, value in values if value or key != OPTIONAL]
    return "\n".join(lines) + "\n"
