"""The steps of a build. Each leaves one file or folder, which appears only when complete."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import debian, pip, process, record, wheels
from .catalogue import CHECKOUT
from .errors import Refused
from .plan import COMPRESSION, Plan

# Settings of the building machine that must not decide what is in an image.
FOREIGN = ("PIP_", "PYTHON", "APPTAINER_BIND", "SINGULARITY_BIND")
# Names of a build's inputs in its folder; the definitions name their files relative to it.
BASE, EARLIER = "base.tar", "earlier.sif"
SOURCES = {"containers": CHECKOUT / "containers", "recipes": CHECKOUT / "recipes"}
NO_APPTAINER = """\
apptainer is not on PATH, and images are built with it. On a cluster try 'module load apptainer'
(or 'module avail'); elsewhere see apptainer.org, Install. Version 1.2 or newer."""


def environment(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for Apptainer: its large folders on scratch, unless the user said where."""
    ours = {
        "APPTAINER_TMPDIR": str(plan.places.temporary),
        "APPTAINER_CACHEDIR": str(plan.places.work / "apptainer-cache"),
        "TMPDIR": str(plan.places.temporary),
    }
    kept = {name: value for name, value in environ.items() if not name.startswith(FOREIGN)}
    return {**ours, **kept, "TMPDIR": ours["TMPDIR"]}


@dataclass(frozen=True)
class Builder:
    """Makes what a plan needs, as an ordinary user."""

    plan: Plan
    environ: Mapping[str, str]

    def log(self, step: str) -> Path:
        """A fresh log for one step."""
        path = self.plan.places.logs / f"{self.plan.image.name}-{step}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    def run(self, command: list[str], log: Path) -> None:
        """Run a command with the environment for Apptainer."""
        process.run(command, log, self.environ)

    def build(self, command: list[str], files: Mapping[str, Path], log: Path) -> None:
        """Run an `apptainer build` in a folder of links to its inputs.

        An image keeps its definition with all arguments: links have names, not this machine's
        paths. Raises BuildError.
        """
        folder = self.plan.places.temporary / "inputs"
        process.empty(folder)
        for name, path in {**SOURCES, **files}.items():
            (folder / name).symlink_to(path)
        process.run(command, log, self.environ, folder)

    def fetch_wheels(self, source: pip.Source) -> None:
        """All locked wheels, with the host's pip."""
        wheels.fetch(self.plan.image, source, self.plan.wheels)

    def make_base(self, definition: Path, packages: list[str]) -> None:
        """The base of a definition, from Debian packages."""
        archive = debian.find_archive(self.environ, debian.apt_sources())
        target = self.plan.base_archive(definition)
        layer = self.plan.places.temporary / "base.tar"
        log = self.log(f"base-for-{definition.stem}")
        self.run(debian.argv(archive, self.plan.image.codename, packages, layer), log)
        part = target.with_suffix(".part")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            debian.docker_archive(layer, part)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
            layer.unlink(missing_ok=True)

    def compile_horovod(self) -> None:
        """The Horovod wheel, in a container with the image's own frameworks."""
        plan = self.plan
        with wheels.appearing(plan.horovod) as part:
            waste = plan.places.temporary / "horovod_wheel.sif"
            binds = f"{plan.wheels}:/mnt:ro,{part}:/srv"
            given = {**self.base_arguments(), "lock": plan.image.lock}
            command = build_argv(plan.wheel_definition, waste, binds, given)
            files = {BASE: plan.base_archive(plan.wheel_definition)}
            self.build(command, files, self.log("horovod"))
            waste.unlink()

    def make_image(self) -> None:
        """The image: packed, then tested as a user would run it, then put in place."""
        plan = self.plan
        plan.output.parent.mkdir(parents=True, exist_ok=True)
        part = plan.output.with_name(f".{plan.output.name}.part")
        log = self.log("image")
        try:
            self.build(self.image_argv(part), self.image_files(), log)
            self.run(["apptainer", "test", "--cleanenv", str(part)], log)
            os.replace(part, plan.output)
        finally:
            part.unlink(missing_ok=True)
        record.write(plan.output, record.Record(plan.key, plan.environment))

    def image_argv(self, part: Path) -> list[str]:
        """The command that builds the image into `part`."""
        plan = self.plan
        base = self.base_arguments()
        if self.only_trainers_changed():
            base = {"bootstrap": "localimage", "from": EARLIER}
        own = {"version": plan.version, "revision": plan.revision, "horovod": "horovod/*.whl"}
        return build_argv(plan.definition, part, f"{plan.wheels}:/mnt:ro", {**base, **own})

    def image_files(self) -> dict[str, Path]:
        """The inputs of that command, by the names it uses."""
        plan = self.plan
        base = plan.base_archive(plan.definition)
        return {BASE: base, EARLIER: plan.output, "horovod": plan.horovod}

    def only_trainers_changed(self) -> bool:
        """Whether the present image differs from the wanted one in our own files alone."""
        present = record.read(self.plan.output)
        return present is not None and present.environment == self.plan.environment

    def base_arguments(self) -> dict[str, str]:
        """The build arguments that name the base."""
        if self.plan.base.kind == "docker":
            return {"bootstrap": "docker", "from": self.plan.base.reference}
        return {"bootstrap": "docker-archive", "from": BASE}


def build_argv(definition: Path, output: Path, binds: str, given: Mapping[str, str]) -> list[str]:
    """An `apptainer build` as an ordinary user. The test is run apart, on the packed image."""
    return [
        *("apptainer", "build", "--fakeroot", "--force", "--notest"),
        *("--mksquashfs-args", COMPRESSION, "--bind", binds),
        *(word for name, value in given.items() for word in ("--build-arg", f"{name}={value}")),
        *(str(output), str(definition)),
    ]


def require_apptainer() -> None:
    """Refused when there is no Apptainer, or it cannot run at all."""
    if shutil.which("apptainer") is None:
        raise Refused(NO_APPTAINER)
    done = subprocess.run(["apptainer", "--version"], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"'apptainer --version' fails:\n{done.stderr.strip()}")
