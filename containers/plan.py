"""What a build will make, and from what: pure, apart from reading the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import keys
from .catalogue import CHECKOUT, HERE, INSIDE, Image
from .places import Places

# Packing this image's 2.9 GB on two cores: gzip 209 s, 745 MB; zstd 3 10 s, 757 MB; zstd 6 23 s,
# 706 MB. zstd also starts Python faster. It needs squashfuse, or a kernel of 4.14 or newer.
COMPRESSION = "-comp zstd -Xcompression-level 3"
REGISTRY_BASE = "debian:12-slim"


@dataclass(frozen=True)
class Base:
    """What the images start from: an image of a registry, or Debian packages made into one."""

    kind: str  # "docker" or "debian"
    reference: str = REGISTRY_BASE  # only of kind docker


@dataclass(frozen=True)
class Plan:
    """One build: inputs, and the keys and paths that follow from them."""

    image: Image
    base: Base
    places: Places
    output: Path
    version: str
    revision: str

    @property
    def definition(self) -> Path:
        """The definition of the image."""
        return HERE / self.image.definition

    @property
    def wheel_definition(self) -> Path:
        """The definition that compiles Horovod."""
        return HERE / self.image.wheel_definition

    @cached_property
    def wheels(self) -> Path:
        """The folder of all locked wheels."""
        name = keys.of_files(self.image.locks(), HERE)
        return self.places.wheels / f"{self.image.name}-{name}"

    def base_key(self, definition: Path) -> str:
        """Content key of the base that a definition starts from."""
        if self.base.kind == "docker":
            return f"docker:{self.base.reference}"
        text = (HERE / "debian.py").read_text(encoding="utf-8")
        return keys.key(
            program=text, release=self.image.codename, packages=" ".join(keys.packages(definition))
        )

    def base_archive(self, definition: Path) -> Path:
        """The file of a base made from Debian packages."""
        return self.places.builds / f"base-{self.base_key(definition)}.tar"

    @cached_property
    def horovod(self) -> Path:
        """The folder of the compiled Horovod wheel."""
        inputs = [*self.image.locks(), self.wheel_definition, HERE / "horovod" / "edits.py"]
        files = keys.of_files(inputs, HERE)
        key = keys.key(files=files, base=self.base_key(self.wheel_definition))
        return self.places.builds / f"horovod-{key}"

    @cached_property
    def environment(self) -> str:
        """Key of all that takes long: an image with the same one only needs new trainers."""
        return keys.key(
            files=keys.of_files([self.definition, HERE / self.image.lock], HERE),
            horovod=self.horovod.name,
            base=self.base_key(self.definition),
        )

    @cached_property
    def key(self) -> str:
        """Key of the whole image. Of the revision it holds only whether it is dirty."""
        return keys.key(
            environment=self.environment,
            inside=keys.of_files(sorted((HERE / INSIDE).glob("*.py")), HERE),
            recipes=keys.of_files(recipes(CHECKOUT), CHECKOUT),
            compression=COMPRESSION,
            version=self.version,
            dirty=str(self.revision.endswith("-dirty")),
        )


def recipes(checkout: Path) -> list[Path]:
    """The files of the package `recipes` that enter the image."""
    folder = checkout / "recipes"
    return sorted([*folder.glob("*.py"), *folder.glob("*.toml")])


def tracked_inputs(image: Image) -> list[str]:
    """What decides the image's content, as paths in the repository, for its revision label."""
    names = [image.definition, image.wheel_definition, image.lock, image.build_lock, INSIDE]
    return ["recipes", "containers/horovod", *(f"containers/{name}" for name in names)]
