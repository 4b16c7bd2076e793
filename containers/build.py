"""Build one of our images: wheels, base, Horovod wheel, environment, image.

Each step is named by the content of its inputs and skipped when its result is there. Everything
but the wheels is done by an ordinary user; when root builds, in the toolbox of the test cluster.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from . import (
    apptainer,
    catalogue,
    chain,
    debian,
    keep,
    modes,
    pip,
    record,
    revision,
    space,
    toolbox,
    wheels,
)
from .apptainer import Apptainer
from .chain import Progress
from .errors import Refused
from .places import Places
from .plan import EPOCH, Base, Plan, Source, tracked_inputs
from .steps import Builder


@dataclass(frozen=True)
class Options:
    """What a user may ask of a build; `revision` is root's, whose repository it is."""

    base: str = "auto"  # auto, debian, or an image of a registry
    source: pip.Source = field(default_factory=pip.Source)
    output: Path | None = None
    frozen: bool = False
    ca: Path | None = None
    revision: str = ""


def is_root() -> bool:
    """Whether the steps with Apptainer have to be done by somebody else."""
    return os.geteuid() == 0


def make_plan(name: str, options: Options) -> Plan:
    """What is to be made. Raises UsageError, Refused."""
    image = catalogue.image(name)
    places = toolbox.places(os.environ) if is_root() else Places.locate(os.environ)
    return Plan(
        image=image,
        base=choose_base(options.base, image),
        places=places,
        output=find_output(options.output, places.images / f"{image.name}.sif"),
        source=find_source(image, options.revision),
    )


def find_source(image: catalogue.Image, told: str) -> Source:
    """Version, revision and its date; `told` is `REVISION DATE` of who can ask the repository."""
    checkout, paths = catalogue.CHECKOUT, tracked_inputs(image)
    version = revision.version(checkout)
    if told:
        name, date = told.split()
        return Source(version, name, int(date))
    date_of = revision.date(checkout, paths)
    return Source(version, revision.revision(checkout, paths), date_of or EPOCH)


def find_output(asked: Path | None, default: Path) -> Path:
    """The image's path on this machine. Raises UsageError."""
    if asked is None:
        return default
    return toolbox.on_host(asked, os.environ) if is_root() else asked.absolute()


def choose_base(asked: str, image: catalogue.Image) -> Base:
    """`auto` resolved. Refused when the tools for the base asked for are not there."""
    there = is_root() or debian.available()  # the toolbox has the tools
    if asked == "debian" and not there:
        raise Refused(debian.NO_TOOL)
    if asked == "debian" or (asked == "auto" and there):
        return Base("debian")
    return Base("docker", image.registry_base if asked == "auto" else asked)


def up_to_date(plan: Plan) -> bool:
    """Whether the image is there, built from exactly these inputs."""
    wanted = plan.key  # read now, so that an edit during the build counts as one after it
    present = record.read(plan.output)
    return present is not None and present.key == wanted


def build(plan: Plan, options: Options, progress: Progress) -> None:
    """Make the image as an ordinary user. Raises BuildError."""
    apptainer.require()
    with chain.only_build(plan.places.work, progress):
        if not up_to_date(plan):  # another build may just have made it
            chain.carry_out(steps_of(plan, options, progress), plan, progress)
        for path in keep.forget(plan.places.builds, plan.results()):
            progress.say(f"removed, not used for {keep.DAYS} days: {path}")


def steps_of(plan: Plan, options: Options, progress: Progress) -> list[chain.Step]:
    """The steps, in the way of building that works here. Raises Refused."""
    plan.places.temporary.mkdir(parents=True, exist_ok=True)  # not emptied: another may build
    space.check_place(space.Volume.of(plan.places.temporary))
    environ = apptainer.environment(plan.places, os.environ, EPOCH)
    mode = modes.choose(environ)
    progress.say(f"build mode: {mode.name} ({mode.evidence})")
    if plan.base.kind == "debian" and not mode.subordinate_ids:
        raise Refused(debian.NO_IDS)
    runtime = Apptainer(mode, environ, plan.places.temporary, options.ca)
    return chain.steps(plan, Builder(plan, runtime, options.frozen), options.source)


def describe(plan: Plan, options: Options, progress: Progress) -> str:
    """The definition, and what would be done."""
    apptainer.require()
    text = plan.definition.read_text(encoding="utf-8").rstrip()
    return f"{text}\n\n{chain.outline(steps_of(plan, options, progress))}"


def delegate(plan: Plan, options: Options, progress: Progress, dry_run: bool) -> None:
    """As root: fetch the wheels here, then go on in the toolbox; does not return."""
    if not plan.wheels.exists() and not dry_run:
        with progress.phase("wheels, with this machine's pip"):
            wheels.fetch(plan.image, options.source, plan.wheels)
    passed = [plan.image.short, f"--base={options.base}"]
    passed += [f"--revision={plan.source.revision} {plan.source.date}"]
    passed += [f"--output={options.output}"] if options.output else []
    passed += ["--frozen"] if options.frozen else []
    passed += ["--dry-run"] if dry_run else []
    progress.say(f"in the cluster's toolbox, whose /scratch is {plan.places.images.parents[1]}")
    toolbox.become(plan.places, passed)
