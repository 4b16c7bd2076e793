"""Builds one of our images. The steps stand in the order in which they happen on the machine:

1. wheels       all that the lock names, with this machine's pip              (wheels.py)
2. bases        Debian packages: to compile in, and of the image              (debian.py)
3. Horovod      compiled against the frameworks of the image     (horovod_wheel*.def)
4. environment  everything but the trainers, packed, then its own %test    (horovod_*.def)
5. image        the environment with the trainers appended    (trainers.py, sif_write.py)
6. proof        each trainer imports in the image, which only then takes its name

Each result is named by the content of its inputs (plan.py) and skipped when it is there. Everything
is done by an ordinary user; when root builds, in the toolbox of the test cluster (toolbox.py).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from . import (
    apptainer,
    apptainer_builds,
    atomic,
    build_modes,
    build_record,
    debian,
    debian_versions,
    definition,
    digest,
    process,
    progress,
    prune,
    sif,
    sif_write,
    space,
    step,
    toolbox,
    trainers,
    wheels,
)
from .apptainer import Apptainer
from .catalogue import CHECKOUT, HERE
from .errors import Refused, SystemFault
from .plan import EPOCH, Options, Plan
from .progress import Progress
from .step import Step


def build(plan: Plan, options: Options, shown: Progress) -> None:
    """Make the image, unless another build just made it. Raises RunnerError."""
    apptainer.require()
    with process.only_build(plan.places.work, shown):
        if not build_record.is_current(plan.output, plan.key):
            Builder.here(plan, options, shown).run(shown)
        for path in prune.forget(plan.places.builds, plan.results()):
            shown.say(f"removed, not used for {prune.DAYS} days: {path}")


def describe(plan: Plan, options: Options, shown: Progress) -> str:
    """The definition, and the commands that would be run. Raises RunnerError."""
    apptainer.require()
    text = plan.definition.read_text(encoding="utf-8").rstrip()
    return f"{text}\n\n{step.outline(Builder.here(plan, options, shown).steps())}"


def delegate(plan: Plan, options: Options, shown: Progress, dry_run: bool) -> None:
    """As root: fetch the wheels here, then go on in the toolbox; does not return."""
    if not plan.wheels.exists() and not dry_run:
        with shown.phase("wheels, with this machine's pip", partial(progress.fetched, plan.wheels)):
            wheels.fetch(plan.image, options.source, plan.wheels)
    inputs = toolbox.Inputs(os.environ)
    passed = [plan.image.short, f"--base={options.base}"]
    passed += [f"--revision={plan.revision.commit} {plan.revision.date}"]
    passed += [f"--output={options.output}"] if options.output else []
    passed += [f"--ca-certificate={inputs.inside(options.ca)}"] if options.ca else []
    passed += ["--frozen"] if options.frozen else []
    passed += ["--dry-run"] if dry_run else []
    shown.say(f"in the cluster's toolbox, whose /scratch is {plan.places.images.parents[1]}")
    toolbox.become(passed, inputs.options())


@dataclass(frozen=True)
class Builder:
    """Makes what a plan needs, as an ordinary user."""

    plan: Plan
    apptainer: Apptainer
    options: Options = field(default_factory=Options)

    @classmethod
    def here(cls, plan: Plan, options: Options, shown: Progress) -> Builder:
        """With the way of building that works on this machine. Raises Refused."""
        temporary = plan.places.temporary
        temporary.mkdir(parents=True, exist_ok=True)  # not emptied: another build may use it
        space.check_place(space.Volume.of(temporary))
        environ = apptainer.environment(plan.places, os.environ, EPOCH)
        mode = build_modes.choose(environ)
        shown.say(f"build mode: {mode.name} ({mode.evidence})")
        if plan.base.kind == "debian" and not mode.subordinate_ids:
            raise Refused(debian.NO_IDS)
        return cls(plan, Apptainer(mode, environ, temporary, options.ca), options)

    def run(self, shown: Progress) -> None:
        """Do the steps that are needed. Raises RunnerError."""
        steps, image = self.steps(), self.plan.image
        long = any(one.needed for one in steps[:-1])
        with process.emptied(self.plan.places.temporary) as folder:
            needs = image.needs if long else image.needs_for_trainers
            for warning in space.require(folder, needs):
                shown.say(f"warning: {warning}")
            step.run(steps, shown)

    def steps(self) -> list[Step]:
        """All steps in order; those whose result is there, or is not asked for, are not needed."""
        compiling = not self.plan.horovod.exists()
        packing = not self.plan.environment.exists()
        found = [
            self.wheels_step((compiling or packing) and not self.plan.wheels.exists()),
            self.base_step("base to compile in", compiling, self.plan.wheel_definition),
            self.base_step("base of the image", packing, self.plan.definition),
            self.horovod_step(compiling),
            self.environment_step(packing),
            self.image_step(),
        ]
        return found if self.plan.base.kind == "debian" else [found[0], *found[3:]]

    # 1. wheels

    def wheels_step(self, needed: bool) -> Step:
        """All locked wheels, with the host's pip."""
        what = (self.plan.image, self.options.source, self.plan.wheels)
        return Step(
            name="wheels",
            needed=needed,
            make=partial(wheels.fetch, *what),
            command=partial(wheels.command, *what),
            status=partial(progress.fetched, self.plan.wheels),
        )

    # 2. bases

    def base_step(self, name: str, wanted: bool, path: Path) -> Step:
        """The base of the definition `path`, from Debian packages."""
        archive = self.plan.base_archive(path)
        return Step(
            name=name,
            needed=wanted and not archive.exists(),
            make=partial(self.make_base, path),
            command=partial(self.base_command, path, archive),
            status=self.last_line(f"base-for-{path.stem}"),
        )

    def make_base(self, path: Path) -> None:
        """Fill it, compare its packages with the lock, wrap it as an image."""
        layer = self.plan.places.temporary / "base.tar"
        try:
            self.apptainer.run(self.base_command(path, layer), self.log(f"base-for-{path.stem}"))
            self.check_versions(debian.installed(layer), path)
            with atomic.new_file(self.plan.base_archive(path)) as part:
                debian.docker_archive(layer, part)
        finally:
            layer.unlink(missing_ok=True)

    def base_command(self, path: Path, layer: Path) -> list[str]:
        """What fills the base of a definition with Debian packages. Raises Refused."""
        archive = debian.find_archive(self.apptainer.environ, debian.apt_sources())
        image, packages = self.plan.image, definition.packages(path)
        return debian.argv(archive, image.codename, image.components, packages, layer)

    def check_versions(self, installed: Mapping[str, str], path: Path) -> None:
        """Report what differs from the locked versions; SystemFault when frozen."""
        section = debian_versions.section(path, self.plan.definition)
        lock = HERE / self.plan.image.lock
        debian_versions.check(installed, lock, section, self.options.frozen)

    # 3. Horovod

    def horovod_step(self, needed: bool) -> Step:
        """The Horovod wheel, compiled in a container with the image's own frameworks."""
        asked = apptainer_builds.horovod(self.plan, self.plan.horovod)
        return Step(
            name="Horovod wheel",
            needed=needed,
            make=self.compile_horovod,
            command=lambda: self.apptainer.argv(asked),
            status=self.last_line("horovod"),
        )

    def compile_horovod(self) -> None:
        """Compile it, and keep nothing of the container but the wheel."""
        with atomic.new_folder(self.plan.horovod) as part:
            asked = apptainer_builds.horovod(self.plan, part)
            self.apptainer.build(asked, self.log("horovod"))
            asked.output.unlink()

    # 4. environment

    def environment_step(self, needed: bool) -> Step:
        """The image without trainers."""
        return Step(
            name="environment, with its test",
            needed=needed,
            make=self.make_environment,
            command=lambda: self.apptainer.argv(apptainer_builds.environment(self.plan)),
            status=self.last_line("environment"),
        )

    def make_environment(self) -> None:
        """Install and pack, then test as a user would run it."""
        log, asked = self.log("environment"), apptainer_builds.environment(self.plan)
        (self.plan.places.temporary / apptainer_builds.NO_RECIPES).mkdir(exist_ok=True)
        self.apptainer.build(asked, log)
        self.check_registry_base(asked.output)
        self.apptainer.test(asked.output, log)
        with atomic.new_file(self.plan.environment) as part:
            shutil.move(str(asked.output), part)

    def check_registry_base(self, image: Path) -> None:
        """As `check_versions`, for a base whose packages are known only when it is unpacked."""
        if self.plan.base.kind == "docker":
            answer = self.log("versions")
            self.apptainer.run(debian_versions.command(image), answer)
            installed = debian.parse_status(answer.read_text(encoding="utf-8"))
            lock = HERE / self.plan.image.lock
            self.check_versions(debian_versions.both(installed, lock), self.plan.definition)

    # 5. image, and 6. proof

    def image_step(self) -> Step:
        """The environment with the trainers."""
        return Step(
            name="image: environment and trainers",
            needed=True,
            make=self.make_image,
            command=lambda: trainers.append_command(Path("trainers"), self.plan.output),
            status=self.last_line("image"),
        )

    def make_image(self) -> None:
        """Append the trainers, import each, put the image in place."""
        plan, log = self.plan, self.log("image")
        try:
            with atomic.new_file(plan.output) as part:
                self.append_trainers(part, log)
                self.apptainer.run(trainers.import_command(part, CHECKOUT), log)
        except sif.SifError as error:
            raise SystemFault(f"{plan.environment} is damaged: {error}\nRemove it.") from None
        build_record.write(plan.output, plan.key, f"sha256:{digest.sha256(plan.output)}")

    def append_trainers(self, image: Path, log: Path) -> None:
        """Write `image`: the environment's file system with the compiled trainers added."""
        like, work = self.plan.environment, self.plan.places.temporary / "image"
        with process.emptied(work):
            folder, squashfs = work / "stage", work / "part.sqfs"
            trainers.stage(CHECKOUT, folder)
            self.apptainer.run(trainers.compile_command(like, folder), log)
            trainers.extract_file_system(like, squashfs)
            self.apptainer.run(trainers.append_command(folder, squashfs), log)
            labels = {
                **self.plan.revision.labels(),
                "recipes": ",".join(trainers.names(CHECKOUT)),
            }
            sif_write.write(like, squashfs, labels, EPOCH, image)

    # logs

    def log(self, name: str) -> Path:
        """A fresh log for one step."""
        path = self.log_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return path

    def log_path(self, name: str) -> Path:
        """Where the log of a step lies."""
        return self.plan.places.logs / f"{self.plan.image.name}-{name}.log"

    def last_line(self, name: str) -> progress.Status:
        """What the log of a step says now."""
        return partial(progress.last_line, self.log_path(name))
