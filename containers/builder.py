"""The steps of a build, and what each of them runs: build.py has their order."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runners.core import atomic, digest, disk_space, machine, sif
from runners.core.disk_space import Needs
from runners.core.errors import Refused, SystemFault

from . import (
    append_trainers,
    apptainer,
    build_modes,
    build_record,
    build_steps,
    debian,
    lockfile,
    process,
    sif_write,
    wheels,
)
from .apptainer import Apptainer, Build
from .build_plan import EPOCH, BuildOptions, BuildPlan
from .build_steps import BuildProgress, BuildStep
from .image_catalogue import CHECKOUT, HERE

# Ten times and more is what emulation takes, of the self-test's limit too.
SLOW = {"APPTAINERENV_SELFTEST_SECONDS": "3600"}
# Names of a build's inputs in its folder; the definitions name their files relative to it.
BASE, NO_RECIPES = "base", "no-recipes"
INSTALLED = "installed-packages"  # of the lock, from the compilation to the environment
COMPILE_BASE = "base to compile in"


@dataclass(frozen=True)
class Builder:
    """Makes what a plan needs, as an ordinary user."""

    plan: BuildPlan
    apptainer: Apptainer
    options: BuildOptions = field(default_factory=BuildOptions)

    @classmethod
    def here(cls, plan: BuildPlan, options: BuildOptions, shown: BuildProgress) -> Builder:
        """With the way of building that works on this machine. Raises Refused."""
        emulated = build_modes.needs_emulation(plan.image.architecture)
        runtime = Apptainer.here(plan.folders, options.ca, EPOCH, SLOW if emulated else {})
        shown.say(runtime.mode.said)
        if not plan.base and not runtime.mode.subordinate_ids:
            raise Refused(debian.NO_IDS, id="subordinate-ids-missing")
        return cls(plan, runtime, options)

    def run(self, steps: list[BuildStep], needs: Needs, shown: BuildProgress) -> None:
        """Do these steps, if there is room for them. Raises RunnerError."""
        with process.emptied(self.plan.folders.temporary) as folder:
            disk_space.require(folder, needs, shown.say)
            build_steps.run(steps, shown, machine.at_once(build_steps.STEP_MEMORY))

    def steps(self) -> list[BuildStep]:
        """All steps in order; those whose result is there, or is not asked for, are not needed."""
        plan = self.plan
        compiling, packing = not plan.horovod.exists(), not plan.environment.exists()
        installed = self.installed if compiling and packing else None
        return [
            *self.wheel_steps(compiling or packing, installed),
            *self.base_steps("base of the image", packing, plan.definition),
            BuildStep(
                "environment, with its test",
                packing,
                usual=self.usual("environment") + (0 if installed else self.usual("packages")),
                make=partial(self.make_environment, installed),
                command=lambda: self.apptainer.argv(self.environment_build(installed)),
                status=self.last_line("environment"),
            ),
            BuildStep(
                "image: environment and trainers",
                needed=True,
                usual=self.usual("image"),
                make=self.make_image,
                command=lambda: append_trainers.append_command(Path("trainers"), plan.output),
                status=self.last_line("image"),
            ),
        ]

    def wheel_steps(self, wanted: bool = True, installed: Path | None = None) -> list[BuildStep]:
        """The steps to Horovod's wheel; the packages are fetched if they are `wanted`.

        What it is compiled against stays in the folder `installed`, for the environment.
        """
        plan, compiling = self.plan, not self.plan.horovod.exists()
        fetch = (plan.image, self.options.source, plan.wheels)
        return [
            BuildStep(
                "wheels",
                wanted and not plan.wheels.exists(),
                after=(),
                usual=self.usual("wheels"),
                make=partial(wheels.fetch, *fetch),
                command=partial(wheels.command, *fetch),
                status=partial(build_steps.fetched, plan.wheels),
            ),
            *self.base_steps(COMPILE_BASE, compiling, plan.wheel_definition),
            BuildStep(
                "Horovod wheel",
                compiling,
                after=("wheels", COMPILE_BASE),
                usual=self.usual("horovod"),
                make=partial(self.compile_horovod, installed),
                command=lambda: self.apptainer.argv(self.horovod_build(plan.horovod, installed)),
                status=self.last_line("horovod"),
            ),
        ]

    # 2. bases

    def base_steps(self, name: str, wanted: bool, path: Path) -> list[BuildStep]:
        """What makes the base of the definition `path` from Debian packages, if it has such one."""
        if self.plan.base:
            return []
        archive = self.plan.base_archive(path)
        step = BuildStep(
            name,
            needed=wanted and not archive.exists(),
            make=partial(self.make_base, path),
            command=partial(self.base_command, path, archive),
            status=self.last_line(f"base-for-{path.stem}"),
            after=(),
            usual=self.usual("base"),
        )
        return [step]

    def make_base(self, path: Path) -> None:
        """Fill it, and compare its packages with the lock."""
        with atomic.new_file(self.plan.base_archive(path)) as part:
            self.apptainer.run(self.base_command(path, part), self.log(f"base-for-{path.stem}"))
            self.check_versions(debian.installed(part), path)

    def base_command(self, path: Path, layer: Path) -> list[str]:
        """What fills the base of a definition with Debian packages. Raises Refused."""
        archive = debian.find_archive(self.apptainer.environ)
        image, packages = self.plan.image, self.plan.image.packages(path)
        wanted = image.codename, image.components, packages, layer
        return debian.argv(archive, *wanted, architecture=image.architecture)

    def check_versions(self, installed: Mapping[str, str], path: Path) -> None:
        """Report what differs from the locked versions; SystemFault when frozen."""
        section = self.plan.lock_section(path)
        debian.check_versions(installed, self.plan.lock, section, self.options.frozen)

    def on_base(
        self, path: Path, files: Mapping[str, Path], build_args: Mapping[str, str], *bound: str
    ) -> Build:
        """What builds a definition from its base; the wheels and what is `bound` are seen by it."""
        plan, base, lock = self.plan, self.plan.base, self.plan.image.lock
        unpacked = plan.folders.temporary / f"base-{path.stem}"
        start = {
            "bootstrap": base.bootstrap if base else "localimage",
            "from": base.source if base and not base.file else BASE,
        }
        return Build(
            definition=path,
            output=plan.folders.temporary / f"{path.stem}.sif",
            files={"containers": HERE, BASE: (base and base.file) or unpacked, **files},
            build_args={**start, "lock": lock, **build_args},
            binds=(f"{plan.wheels}:/mnt:ro", *bound),
        )

    def build_on_base(self, build: Build, log: Path) -> None:
        """Build from the unpacked base: as an OCI image it would be packed and unpacked again."""
        if self.plan.base:
            self.apptainer.build(build, log)
            return
        archive = self.plan.base_archive(build.definition)
        with process.emptied(build.files[BASE]) as folder:
            self.apptainer.run(debian.unpack_command(archive, folder), log)
            self.apptainer.build(build, log)

    # 3. Horovod

    @property
    def installed(self) -> Path:
        return self.plan.folders.temporary / INSTALLED

    def compile_horovod(self, installed: Path | None = None) -> None:
        """Compile it against the image's own frameworks; keep the wheel and what is `installed`."""
        if installed:
            installed.mkdir()
            installed.chmod(0o755)  # whatever the umask: it becomes a folder of the image
        with atomic.new_folder(self.plan.horovod) as part:
            build = self.horovod_build(part, installed)
            self.build_on_base(build, self.log("horovod"))
            build.output.unlink()

    def horovod_build(self, result: Path, installed: Path | None = None) -> Build:
        """What compiles Horovod; its wheel comes into the folder `result`."""
        kept = [f"{installed}:/opt/horovod"] if installed else []
        path = self.plan.wheel_definition
        build_args = {"packages": " ".join(self.plan.image.packages(path))}
        return self.on_base(path, {}, build_args, f"{result}:/srv", *kept)

    # 4. environment

    def make_environment(self, installed: Path | None = None) -> None:
        """Install, or take over, and pack all but the trainers; test as a user would run it."""
        log, build = self.log("environment"), self.environment_build(installed)
        build.files[NO_RECIPES].mkdir(exist_ok=True)
        self.build_on_base(build, log)
        if self.plan.base:  # its packages are known only when it is unpacked
            answer = self.log("versions")
            self.apptainer.run(apptainer.exec_argv(build.output, *debian.DPKG), answer)
            present = debian.parse_status(answer.read_text(encoding="utf-8"))
            # It has packages of its own, and our tools are gone from the image.
            locked = lockfile.debian(self.plan.lock, debian.SECTIONS[0])
            versions = {name: present.get(name, locked[name]) for name in locked}
            self.check_versions(versions, self.plan.definition)
        self.apptainer.test(build.output, log)
        with atomic.new_file(self.plan.environment) as part:
            shutil.move(str(build.output), part)

    def environment_build(self, installed: Path | None = None) -> Build:
        plan = self.plan
        files = {"horovod": plan.horovod, NO_RECIPES: plan.folders.temporary / NO_RECIPES}
        if installed:
            files[INSTALLED] = installed
        build_args = {"horovod": "horovod/*.whl", "recipes": NO_RECIPES}
        build = self.on_base(plan.definition, files, build_args)
        return replace(build, compression=plan.compression)

    # 5. image, and 6. proof

    def make_image(self) -> None:
        """Append the trainers, import each, put the image in place."""
        plan, log = self.plan, self.log("image")
        try:
            with atomic.new_file(plan.output) as part:
                self.append_trainers(part, log)
                usable = append_trainers.for_frameworks(CHECKOUT, plan.frameworks)
                self.apptainer.run(append_trainers.import_command(part, usable), log)
        except sif.SifError as error:
            raise SystemFault(
                f"{plan.environment} is damaged: {error}\nRemove it.",
                id="built-environment-damaged",
            ) from None
        sha256 = f"sha256:{digest.sha256(plan.output)}"
        build_record.write(plan.output, plan.key, sha256, plan.packed_level)

    def append_trainers(self, image: Path, log: Path) -> None:
        """Write `image`: the environment's file system with the compiled trainers added."""
        like, work = self.plan.environment, self.plan.folders.temporary / "image"
        with process.emptied(work):
            folder, squashfs = work / "stage", work / "part.sqfs"
            append_trainers.stage(CHECKOUT, folder)
            self.apptainer.run(append_trainers.compile_command(like, folder), log)
            append_trainers.extract_file_system(like, squashfs)
            self.apptainer.run(append_trainers.append_command(folder, squashfs), log)
            recipes = ",".join(append_trainers.names(CHECKOUT))
            labels = {**self.plan.revision.labels(), "recipes": recipes}
            sif_write.write(like, squashfs, labels, EPOCH, image)

    def usual(self, kind: str) -> int:
        """Seconds that a kind of step takes on two idle cores, 0 where nobody knows."""
        return self.plan.image.usual.get(kind, 0)

    # logs

    def log(self, name: str) -> Path:
        return process.fresh_log(self.log_path(name))

    def log_path(self, name: str) -> Path:
        return self.plan.folders.logs / f"{self.plan.image.name}-{name}.log"

    def last_line(self, name: str) -> build_steps.Status:
        return partial(build_steps.last_line, self.log_path(name))
