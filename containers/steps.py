"""The steps of a build. Each leaves one file or folder, which appears only when complete."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import (
    assemble,
    debian,
    definition,
    digest,
    drift,
    lockfile,
    pip,
    process,
    record,
    sif,
    wheels,
)
from .apptainer import Apptainer, Build
from .catalogue import CHECKOUT, HERE
from .errors import BuildError
from .plan import COMPRESSION, EPOCH, Plan, recipes

# Names of a build's inputs in its folder; the definitions name their files relative to it.
BASE, NO_RECIPES = "base.tar", "no-recipes"
# Compiles the trainers as they will lie in the image, checks them on the way, and imports each.
COMPILE = """\
set -eu
python -m compileall -q -f --invalidation-mode unchecked-hash -s "$1" -p / "$1"
"""
# In the form of dpkg's own status file.
DPKG = ("dpkg-query", "--show", r"--showformat=Package: ${Package}\nVersion: ${Version}\n\n")
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"


@dataclass(frozen=True)
class Builder:
    """Makes what a plan needs, as an ordinary user."""

    plan: Plan
    apptainer: Apptainer
    frozen: bool = False

    def log(self, step: str) -> Path:
        """A fresh log for one step."""
        path = self.plan.places.logs / f"{self.plan.image.name}-{step}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    def fetch_wheels(self, source: pip.Source) -> None:
        """All locked wheels, with the host's pip."""
        wheels.fetch(self.plan.image, source, self.plan.wheels)

    def base_command(self, path: Path, layer: Path) -> list[str]:
        """What fills the base of a definition with Debian packages. Raises Refused."""
        archive = debian.find_archive(self.apptainer.environ, debian.apt_sources())
        image, packages = self.plan.image, definition.packages(path)
        return debian.argv(archive, image.codename, image.components, packages, layer)

    def make_base(self, path: Path) -> None:
        """The base of a definition, from Debian packages."""
        target, layer = self.plan.base_archive(path), self.plan.places.temporary / "base.tar"
        self.apptainer.run(self.base_command(path, layer), self.log(f"base-for-{path.stem}"))
        self.check_versions(debian.installed(layer), path)
        part = target.with_suffix(".part")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            debian.docker_archive(layer, part)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
            layer.unlink(missing_ok=True)

    def check_versions(self, installed: Mapping[str, str], path: Path) -> None:
        """Report what differs from the locked versions; BuildError when frozen."""
        lock = HERE / self.plan.image.lock
        drift.check(installed, lock, drift.section(path, self.plan.definition), self.frozen)

    def check_registry_base(self, image: Path) -> None:
        """As `check_versions`, for a base whose packages are known only when it is unpacked.

        Such a base has packages of its own, and our tools are gone: what both have is compared.
        """
        if self.plan.base.kind == "debian":
            return
        answer = self.log("versions")
        self.apptainer.run(["apptainer", "exec", "--cleanenv", str(image), *DPKG], answer)
        installed = debian.parse_status(answer.read_text(encoding="utf-8"))
        locked = lockfile.debian(HERE / self.plan.image.lock, drift.SECTIONS[0])
        both = {name: installed.get(name, version) for name, version in locked.items()}
        self.check_versions(both, self.plan.definition)

    def horovod_build(self, result: Path) -> Build:
        """What compiles Horovod; its wheel comes into the folder `result`."""
        plan = self.plan
        return Build(
            definition=plan.wheel_definition,
            output=plan.places.temporary / "horovod_wheel.sif",
            files={"containers": HERE, BASE: plan.base_archive(plan.wheel_definition)},
            given={**self.base_arguments(), "lock": plan.image.lock},
            binds=(f"{plan.wheels}:/mnt:ro", f"{result}:/srv"),
        )

    def compile_horovod(self) -> None:
        """The Horovod wheel, in a container with the image's own frameworks."""
        with wheels.appearing(self.plan.horovod) as part:
            asked = self.horovod_build(part)
            self.apptainer.build(asked, self.log("horovod"))
            asked.output.unlink()

    def environment_build(self) -> Build:
        """What installs everything but the trainers."""
        plan = self.plan
        return Build(
            definition=plan.definition,
            output=plan.places.temporary / "environment.sif",
            files={
                "containers": HERE,
                BASE: plan.base_archive(plan.definition),
                "horovod": plan.horovod,
                NO_RECIPES: plan.places.temporary / NO_RECIPES,
            },
            given={**self.base_arguments(), "horovod": "horovod/*.whl", "recipes": NO_RECIPES},
            binds=(f"{plan.wheels}:/mnt:ro",),
            compression=COMPRESSION,
        )

    def make_environment(self) -> None:
        """The image without trainers: packed, then proven as a user would run it."""
        plan, log, asked = self.plan, self.log("environment"), self.environment_build()
        plan.environment.parent.mkdir(parents=True, exist_ok=True)
        (plan.places.temporary / NO_RECIPES).mkdir(exist_ok=True)
        self.apptainer.build(asked, log)
        self.check_registry_base(asked.output)
        self.apptainer.test(asked.output, log)
        part = plan.environment.with_suffix(".part")
        try:
            shutil.move(str(asked.output), part)
            os.replace(part, plan.environment)
        finally:
            part.unlink(missing_ok=True)

    def make_image(self) -> None:
        """The environment with the trainers, checked, then put in place."""
        plan, log = self.plan, self.log("image")
        plan.output.parent.mkdir(parents=True, exist_ok=True)
        part = plan.output.with_name(f".{plan.output.name}.part")
        work = plan.places.temporary / "image"
        process.empty(work)
        try:
            assemble.stage(recipes(CHECKOUT), CHECKOUT, work / "stage")
            self.compile_trainers(work / "stage", log)
            self.append(work, part, log)
            self.import_trainers(part, log)
            os.replace(part, plan.output)
        except sif.SifError as error:
            raise BuildError(f"{plan.environment} is damaged: {error}\nRemove it.") from None
        finally:
            part.unlink(missing_ok=True)
        made = f"sha256:{digest.sha256(plan.output)}"
        record.write(plan.output, record.Record(plan.key, made))

    def compile_trainers(self, stage: Path, log: Path) -> None:
        """Bytecode beside the trainers, made by the image's own Python."""
        inside = ["sh", "-c", COMPILE, "sh", str(stage)]
        bind = ["--bind", str(stage)]
        self.apptainer.run(["apptainer", "exec", *bind, str(self.plan.environment), *inside], log)

    def append(self, work: Path, part: Path, log: Path) -> None:
        """Write `part`: the environment's file system with the staged files added."""
        squashfs = work / "part.sqfs"
        assemble.extract(self.plan.environment, squashfs)
        self.apptainer.run(self.append_command(work / "stage", squashfs), log)
        assemble.write(self.plan.environment, squashfs, self.labels(), EPOCH, part)
        squashfs.unlink()

    def append_command(self, stage: Path, squashfs: Path) -> list[str]:
        """What adds the staged files to a file system."""
        options = ["-all-root", "-no-recovery", "-quiet", "-no-progress"]
        return ["mksquashfs", str(stage), str(squashfs), *options]

    def import_trainers(self, part: Path, log: Path) -> None:
        """Each trainer must import in the finished image."""
        names = [f"recipes.{preset.stem}" for preset in recipes(CHECKOUT) if is_preset(preset)]
        # -P: the image's trainers, not those of the folder that this is run in.
        python = ["python", "-P", "-c", IMPORT, *names]
        self.apptainer.run(["apptainer", "exec", "--cleanenv", str(part), *python], log)

    def labels(self) -> dict[str, str]:
        """What the environment says of itself, and the project's own labels."""
        source = self.plan.source
        made = datetime.datetime.fromtimestamp(source.date, datetime.timezone.utc)
        return {
            "org.opencontainers.image.version": source.version,
            "org.opencontainers.image.revision": source.revision,
            "org.opencontainers.image.created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "recipes": ",".join(path.stem for path in recipes(CHECKOUT) if is_preset(path)),
        }

    def base_arguments(self) -> dict[str, str]:
        """The build arguments that name the base."""
        if self.plan.base.kind == "docker":
            return {"bootstrap": "docker", "from": self.plan.base.reference}
        return {"bootstrap": "docker-archive", "from": BASE}


def is_preset(path: Path) -> bool:
    """Whether a file of `recipes` is the preset that makes its namesake a trainer."""
    return path.suffix == ".toml"
