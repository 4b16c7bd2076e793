"""What a build will make, and from what: pure, apart from reading the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import debian, definition, drift, keys, lockfile
from .catalogue import CHECKOUT, HERE, INSIDE, Image
from .places import Places

# The table behind this choice: docs in README, "How the images are packed"; `make bench-images`.
COMPRESSION = "-comp zstd -Xcompression-level 9 -b 1M"
# The time of everything in an image that has none of its own: the release of Horovod 0.28.1.
EPOCH = 1686528000  # 2023-06-12, seconds since 1970


@dataclass(frozen=True)
class Base:
    """What the images start from: an image of a registry, or Debian packages made into one."""

    kind: str  # "docker" or "debian"
    reference: str = ""  # only of kind docker


@dataclass(frozen=True)
class Source:
    """Where the project's files come from: for the labels of the image."""

    version: str
    revision: str
    date: int  # of the revision, seconds since 1970

    @property
    def dirty(self) -> bool:
        """Whether the files differ from the revision."""
        return self.revision.endswith("-dirty")


@dataclass(frozen=True)
class Plan:
    """One build: inputs, and the keys and paths that follow from them."""

    image: Image
    base: Base
    places: Places
    output: Path
    source: Source

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
        return self.places.wheels / f"{self.image.name}-{self.pins}"

    @cached_property
    def pins(self) -> str:
        """Key of all wheels and archives."""
        return self._key_of(lockfile.read(HERE / self.image.lock))

    def _key_of(self, pins: list[lockfile.Pin]) -> str:
        lines = [pin.line() for pin in [*pins, *lockfile.build(HERE / self.image.lock)]]
        return keys.key(pins="\n".join(sorted(lines)))

    def base_key(self, path: Path) -> str:
        """Content key of the base that a definition starts from."""
        if self.base.kind == "docker":
            return f"docker:{self.base.reference}"
        section = drift.section(path, self.definition)
        image, packages = self.image, definition.packages(path)
        command = debian.argv("", image.codename, image.components, packages, Path())
        return keys.key(
            command="\n".join(command),
            versions=lockfile.render_debian({"": lockfile.debian(HERE / self.image.lock, section)}),
        )

    def base_archive(self, path: Path) -> Path:
        """The file of a base made from Debian packages."""
        return self.places.builds / f"base-{self.base_key(path)}.tar"

    @cached_property
    def horovod(self) -> Path:
        """The folder of the compiled Horovod wheel."""
        inputs = [self.wheel_definition]
        inputs += sorted(p for p in (HERE / "horovod").iterdir() if p.suffix in (".py", ".sh"))
        pins = self._key_of(lockfile.against(HERE / self.image.lock))
        files = keys.of_files(inputs, HERE)
        key = keys.key(files=files, pins=pins, base=self.base_key(self.wheel_definition))
        return self.places.builds / f"horovod-{key}"

    @cached_property
    def environment(self) -> Path:
        """The image without trainers: all that takes long."""
        inputs = [self.definition, HERE / "slim.py"]
        inputs += [HERE / self.image.slim, *sorted((HERE / INSIDE).glob("*.py"))]
        key = keys.key(
            files=keys.of_files(inputs, HERE),
            pins=self.pins,
            horovod=self.horovod.name,
            base=self.base_key(self.definition),
            compression=COMPRESSION,
            epoch=str(EPOCH),
        )
        return self.places.builds / f"environment-{key}.sif"

    def results(self) -> list[Path]:
        """All that is kept of a build besides wheels and image."""
        bases = [self.base_archive(path) for path in (self.definition, self.wheel_definition)]
        return [*bases, self.horovod, self.environment]

    @cached_property
    def key(self) -> str:
        """Key of the whole image. Of the revision it holds only whether it is dirty."""
        return keys.key(
            environment=self.environment.name,
            recipes=keys.of_files(recipes(CHECKOUT), CHECKOUT),
            assembly=keys.of_files([HERE / "assemble.py"], HERE),
            version=self.source.version,
            dirty=str(self.source.dirty),
        )


def recipes(checkout: Path) -> list[Path]:
    """The files of the package `recipes` that enter the image."""
    folder = checkout / "recipes"
    return sorted([*folder.rglob("*.py"), *folder.glob("*.toml")])


def tracked_inputs(image: Image) -> list[str]:
    """What decides the image's content, as paths in the repository, for its revision label."""
    names = [image.definition, image.wheel_definition, image.lock, image.slim]
    names += [INSIDE, "slim.py"]
    return ["recipes", "containers/horovod", *(f"containers/{name}" for name in names)]
