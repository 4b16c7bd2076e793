"""What `runner build` is to make: which kind of image, and which options are for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from containers.build_plan import BuildOptions
from containers.image_catalogue import IMAGES

from ..contract.enums import WordEnum
from ..core.errors import UsageError

NO_TARGET = f"""\
name what to build: one of {", ".join(IMAGES)}, or a definition file.
An image from another: runner build --from IMAGE --requirements FILE, or --horovod"""
NEEDS_ADDITION = "name what to add: --requirements FILE, --horovod, or --def FILE"
ADDITIONS = ("requirements", "horovod", "def_file")
PACKAGES = ("wheelhouse", "index_url", "extra_index_url")
FOR_ALL = ("target", "output", "ca", "level", "dry_run")


class BuildKind(WordEnum):
    """What is built, in the words of an error."""

    PACKAGED = "a packaged image"
    DEFINITION = "a definition file"
    ADDED = "--from with --requirements or --horovod"
    ON_TOP = "--from with --def"


# The options that are for it, beside those that all have.
OPTIONS = {
    BuildKind.PACKAGED: ("base", "frozen", "arch", *PACKAGES),
    BuildKind.DEFINITION: ("given",),
    BuildKind.ADDED: ("origin", "requirements", "horovod", *PACKAGES),
    BuildKind.ON_TOP: ("origin", "def_file", "given"),
}


@dataclass(frozen=True)
class ImageRequest:
    """An image that is to be built: the packaged `name`, or that of a definition file.

    One on top of the image `origin` gets what `definition` or `requirements` say, or Horovod.
    """

    kind: BuildKind
    name: str = ""
    origin: str = ""
    definition: Path | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    requirements: Path | None = None
    options: BuildOptions = field(default_factory=BuildOptions)


def kind_of(target: str | None, origin: str | None, given: Mapping[str, str]) -> BuildKind:
    """Return which kind is asked for; raise UsageError for options of another.

    `given` are the options that were typed, by the names of OPTIONS.
    """
    ways = [name for name in ADDITIONS if name in given]
    if origin and target:
        raise UsageError(
            f"{target}: --from already names the base image; {NEEDS_ADDITION}", id="from-and-target"
        )
    if ways and not origin:
        raise UsageError(
            "--requirements, --horovod and --def go with --from IMAGE, the base image",
            id="from-missing",
        )
    if origin and len(ways) != 1:
        raise UsageError(
            f"--from {origin}: {NEEDS_ADDITION}{'; exactly one' if ways else ''}",
            id="from-needs-addition",
        )
    if not (origin or target):
        raise UsageError(NO_TARGET, id="build-target-missing")
    kind = BuildKind.PACKAGED
    if origin:
        kind = BuildKind.ON_TOP if "def_file" in given else BuildKind.ADDED
    elif target not in IMAGES and (str(target).endswith(".def") or "/" in str(target)):
        kind = BuildKind.DEFINITION
    for name, option in given.items():
        if name not in (*FOR_ALL, *OPTIONS[kind]):
            others = " or ".join(
                other_kind for other_kind, names in OPTIONS.items() if name in names
            )
            raise UsageError(
                f"{option} is for {others}, not for {kind}", id="build-option-of-other-kind"
            )
    return kind


def arguments(texts: Iterable[str]) -> dict[str, str]:
    """Return build arguments that were given as NAME=VALUE; raise UsageError for what is none."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--build-arg {text}: not NAME=VALUE", id="build-arg-malformed")
        values[name] = value
    return values
