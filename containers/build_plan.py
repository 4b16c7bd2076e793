"""The plan of a build: its results, each named by a key that is made of all its inputs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from runners.core import digest
from runners.core.errors import Refused, UsageError
from runners.core.machine import architecture as machine
from runners.core.machine import file_name
from runners.core.text import utc

from . import append_trainers, base_image, debian, image_catalogue, lockfile, pip
from .base_image import BaseImage
from .build_folders import BuildFolders
from .horovod_image import selftest
from .image_catalogue import CHECKOUT, HERE, INSIDE, Image

# The table behind this choice: docs/measurements/packing.md.
ZSTD = "-comp zstd -Xcompression-level {} -b 1M"
PACK_LEVEL, USUAL_LEVEL, STRONGEST_LEVEL = "RUNNER_PACK_LEVEL", 6, 22
# The time of everything in an image that has none of its own: the release of Horovod 0.28.1.
EPOCH = 1686528000  # 2023-06-12, seconds since 1970
# `COMMIT DATE` of the sources, for the labels, where there is no git to ask: a release archive.
REVISION = "RUNNER_REVISION"
LEVEL, LEVEL_OF = "-zstd{}.sif", re.compile(r"-zstd(\d+)\.sif$")  # ends an environment's name
CHANGES = ("slim.py", "installed_edits.py")  # what changes installed packages
ASSEMBLY = ("append_trainers.py", "sif_write.py")  # what puts environment and trainers together


@dataclass(frozen=True)
class BuildOptions:
    """What a user may ask of a build."""

    base: str = "auto"  # auto, debian, or an image of a registry or in a file
    source: pip.PackageSource = field(default_factory=pip.PackageSource)  # of the wheels
    output: Path | None = None
    frozen: bool = False  # no Debian packages but the locked ones
    ca: Path | None = None
    arch: str = ""  # in Go's words; this machine's where nothing is said
    level: int | None = None  # of zstd, 1 to STRONGEST_LEVEL


@dataclass(frozen=True)
class Revision:
    """Where the project's files come from: for the labels of the image."""

    version: str
    commit: str
    date: int  # of the commit, seconds since 1970

    @property
    def dirty(self) -> bool:
        return self.commit.endswith("-dirty")

    def labels(self) -> dict[str, str]:
        """Labels of the Open Container Initiative (image-spec, annotations)."""
        return {
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.created": utc(self.date),
        }


@dataclass(frozen=True)
class BuildPlan:
    """One build: inputs, and the keys and paths that follow from them."""

    image: Image
    base: BaseImage | None  # to start from; None for Debian packages made into one
    folders: BuildFolders
    output: Path
    revision: Revision
    level: int | None = None  # of zstd, where one is asked for; else what is packed stays

    @property
    def definition(self) -> Path:
        return HERE / self.image.definition

    @property
    def wheel_definition(self) -> Path:
        return HERE / self.image.wheel_definition

    @property
    def lock(self) -> Path:
        return HERE / self.image.lock

    @property
    def frameworks(self) -> set[str]:
        """Those of the image, in the words of the trainers' presets."""
        known, pins = selftest.FRAMEWORKS, lockfile.read(self.lock)
        return {known[pin.name][1].lower() for pin in pins if pin.name in known}

    @cached_property
    def wheels(self) -> Path:
        return self.folders.wheels / f"{self.image.name}-{self.pins}"

    @cached_property
    def pins(self) -> str:
        return self._key_of(lockfile.read(self.lock))

    def _key_of(self, pins: list[lockfile.Pin]) -> str:
        lines = [pin.line() for pin in [*pins, *lockfile.build(self.lock)]]
        return digest.key(pins="\n".join(sorted(lines)))

    def base_key(self, path: Path) -> str:
        """Content key of the base that a definition starts from."""
        if self.base:
            return self.base.key
        image, packages = self.image, self.image.packages(path)
        wanted = image.codename, image.components, packages, Path()
        command = debian.argv("", *wanted, architecture=image.architecture)
        locked = lockfile.debian(self.lock, self.lock_section(path))
        return digest.key(command="\n".join(command), versions=lockfile.render_debian({"": locked}))

    def lock_section(self, path: Path) -> str:
        """The lock's section for the base of one definition."""
        return debian.SECTIONS[0] if path == self.definition else debian.SECTIONS[1]

    def base_archive(self, path: Path) -> Path:
        return self.folders.builds / f"base-{self.base_key(path)}-files.tar"

    @cached_property
    def horovod(self) -> Path:
        inputs = [self.wheel_definition]
        inputs += sorted((HERE / "horovod").rglob("*.*"))
        pins = self._key_of(lockfile.against(self.lock))
        files = digest.of_files(inputs, HERE)
        key = digest.key(files=files, pins=pins, base=self.base_key(self.wheel_definition))
        return self.folders.builds / f"horovod-{key}"

    @cached_property
    def environment(self) -> Path:
        """The image without trainers: all that takes long.

        Where no level is asked for, the one that is there, whatever its level.
        """
        usual = self._environment(self.level or USUAL_LEVEL)
        if self.level is None and not usual.exists():
            others = usual.parent.glob(f"{self.environment_key}{LEVEL.format('*')}")
            return min(others, default=usual)
        return usual

    def _environment(self, level: int) -> Path:
        return self.folders.builds / f"{self.environment_key}{LEVEL.format(level)}"

    @property
    def packed_level(self) -> int:
        """Level of zstd of the environment, which the image has too."""
        match = LEVEL_OF.search(self.environment.name)
        return int(match[1]) if match else USUAL_LEVEL

    @property
    def compression(self) -> str:
        return ZSTD.format(self.packed_level)

    @cached_property
    def environment_key(self) -> str:
        """What is in the environment, however strongly it is packed."""
        inputs = [self.definition, *(HERE / name for name in (*CHANGES, self.image.slim))]
        inputs += sorted((HERE / INSIDE).glob("*.py"))
        key = digest.key(
            files=digest.of_files(inputs, HERE),
            pins=self.pins,
            horovod=self.horovod.name,
            base=self.base_key(self.definition),
            epoch=str(EPOCH),
        )
        return f"environment-{key}"

    def results(self) -> list[Path]:
        """All that is kept of a build besides wheels and image."""
        bases = [self.base_archive(path) for path in (self.definition, self.wheel_definition)]
        return [*bases, self.horovod, self.environment]

    @cached_property
    def key(self) -> str:
        """Key of the whole image. Of the revision it holds only whether it is dirty."""
        return digest.key(
            environment=self.environment_key,
            recipes=digest.of_files(append_trainers.files(CHECKOUT), CHECKOUT),
            assembly=digest.of_files([HERE / name for name in ASSEMBLY], HERE),
            version=self.revision.version,
            dirty=str(self.revision.dirty),
        )


def make(name: str, options: BuildOptions) -> BuildPlan:
    """What is to be made. Raises UsageError, Refused."""
    architecture = options.arch or machine()
    image = image_catalogue.image(name, architecture)
    folders = BuildFolders.locate(os.environ)
    output = folders.images / file_name(image.name, architecture)
    if options.output:
        output = options.output.absolute()
    change = os.environ.get(REVISION) or last_change(CHECKOUT, inputs(image))
    commit, date = (change or f"unknown {EPOCH}").split()
    revision = Revision(version(CHECKOUT), commit, int(date))
    base = choose_base(options.base, image)
    return BuildPlan(image, base, folders, output, revision, asked_level(options.level))


def asked_level(option: int | None) -> int | None:
    """Return the level of zstd that the option or the variable asks for. Raises UsageError."""
    text = str(option or os.environ.get(PACK_LEVEL, ""))
    if text and not (text.isdecimal() and 1 <= int(text) <= STRONGEST_LEVEL):
        raise UsageError(
            f"{PACK_LEVEL}={text}: not a level of zstd, 1 to {STRONGEST_LEVEL}",
            id="pack-level-invalid",
        )
    return int(text) if text else None


def inputs(image: Image) -> list[str]:
    """Return what decides the image's content, as paths in the repository."""
    names = (image.definition, image.wheel_definition, image.lock, image.slim)
    return ["recipes", *(f"containers/{name}" for name in ("horovod", INSIDE, *CHANGES, *names))]


def version(checkout: Path) -> str:
    """The version in pyproject.toml, read without a TOML parser (Python 3.9 has none).

    Where the project is installed, there is no such file but the installed package's own version.
    """
    project = checkout / "pyproject.toml"
    if not project.is_file():
        return importlib.metadata.version("horovod-runner")
    match = re.search(r'^version\s*=\s*"([^"]+)"', project.read_text("utf-8"), re.MULTILINE)
    return match[1] if match else "unknown"


def last_change(checkout: Path, paths: Sequence[str]) -> str:
    """Commit and date of the last change to `paths`, `-dirty` when they differ now.

    Empty where there is no git or no repository (a release archive).
    """
    if not (checkout / ".git").exists():
        return ""  # a repository further up would be another project's
    commit = _git(checkout, "log", "-1", "--format=%H %ct", "--", *paths)
    dirty = commit and _git(checkout, "status", "--porcelain", "--", *paths)
    return commit.replace(" ", "-dirty ") if dirty else commit


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def choose_base(choice: str, image: Image) -> BaseImage | None:
    """The base to start from, None for Debian packages.

    Raises Refused when their tools are not there, and UsageError for a file that is no image.
    """
    available = debian.available()
    if choice == "debian" and not available:
        raise Refused(debian.NO_TOOL, id="mmdebstrap-missing")
    if choice == "debian" or (choice == "auto" and available):
        return None
    name = image.registry_base if choice == "auto" else choice
    return base_image.find(name, image.architecture)
