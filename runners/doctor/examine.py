"""What the doctor finds on this machine and of an image; the plan for the short job.

Subjects are looked at side by side.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import places
from ..core.errors import RunnerError, UsageError
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.remedy import command
from ..core.site import Site
from ..images import inspect
from ..images.inspect import UNKNOWN, Inspection
from ..injob.interfaces import interfaces
from ..launching import gather
from ..planning import execution
from ..settings import config
from . import timed, trial
from .checks import container, environment, gpu, network, scratch, slurm
from .finding import About, Finding
from .timed import Subject, in_time

ABOUT = About("image")
SHOWN = (
    "horovod.version",
    "horovod.frameworks",
    "horovod.controllers",
    "torch.version",
    "tensorflow.version",
    "mpi.flavour",
    "mpi.version",
    "pmix.version",
    "cuda.version",
    "nccl.version",
    "glibc.version",
)
FRAMEWORKS = ("torch.version", "tensorflow.version")
ABSENT = (UNKNOWN, "none")


def examine(
    flags: Mapping[str, Any], with_job: bool, listener: Listener
) -> tuple[list[Finding], Plan | None]:
    """Look at this machine, and at the image if one is named; return also the short job's plan.

    There is no plan where no image was named, or none can be made. Raises UsageError where a job is
    wanted and no image named, and for a site that is not here.
    """
    here = gather.probe_site(flags, trial.PRESET, fresh=True)
    gather.only_here(here)
    settings = config.load(flags, os.environ, trial.PRESET, here.profile)
    name = settings.get("image")
    if with_job and not name:
        raise UsageError("a job needs an image", remedy="--image horovod_cpu.sif")
    made, about = _plan(flags, here, not with_job, listener) if name else (None, [])
    runs_dir = Path(settings.get("runs-dir")).absolute()
    image = made.spec.image.path if made and _is_on_disk(made, *execution.CONTAINERS) else None
    return timed.examine(_subjects(here, runs_dir, image)) + about, made


def _plan(
    flags: Mapping[str, Any], here: Site, dry_run: bool, listener: Listener
) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the job, None when there can be none, and what there is to say."""
    try:
        made = gather.plan_for(trial.TRAINER, trial.PRESET, flags, here, dry_run, listener)
        seen = _is_on_disk(made, *execution.CONTAINERS, "none")
        about = image_facts(inspect.inspect(made.spec.image.path)) if seen else []
        return made, [*about, *image_plan(made)]
    except RunnerError as error:
        return None, [refused(error)]


def _is_on_disk(made: Plan, *runtimes: str) -> bool:
    """Whether the image is a file, or a folder, on this machine, for one of these runtimes."""
    return made.launching.runtime in runtimes and made.spec.image.path.exists()


def _subjects(site: Site, runs_dir: Path, image: Path | None = None) -> list[Subject]:
    """Return what is to be looked at; `image` is tried as a job would start it."""
    return [
        Subject(container.ABOUT.subject, lambda: _containers(site, image), 180.0),
        Subject(slurm.ABOUT.subject, lambda: _scheduler(site), 30.0),
        Subject(gpu.ABOUT.subject, lambda: gpu.check(gpu.probe()), 40.0),
        Subject(network.ABOUT.subject, lambda: network.check(network.probe()), 20.0),
        Subject(scratch.ABOUT.subject, lambda: scratch.check(scratch.probe(runs_dir)), 40.0),
        Subject(environment.ABOUT.subject, _environment, 20.0),
    ]


def _containers(site: Site, image: Path | None) -> list[Finding]:
    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return container.absent(site)
    found = container.check(container.probe(runtime, places.user(), _workplace()))
    if image is not None:
        found.append(container.run(container.start("running the image", runtime, [str(image)])))
    return found


def _workplace() -> Path:
    """Return a folder to try things in: scratch where it answers and may be written in."""
    folder = places.scratch()
    usable = in_time(lambda: folder.is_dir() and os.access(folder, os.W_OK), scratch.SECONDS)
    return folder if usable else Path(tempfile.gettempdir())


def _scheduler(site: Site) -> list[Finding]:
    if "slurm" not in site.schedulers:
        return slurm.absent(site)
    return slurm.check(site, slurm.probe())


def _environment() -> list[Finding]:
    return environment.check(os.environ, [item.name for item in interfaces()])


def refused(error: RunnerError) -> Finding:
    return ABOUT.failure("plan", error.what, error.evidence, error.remedies)


def image_facts(inspection: Inspection) -> list[Finding]:
    known = {name: fact for name, fact in inspection.facts.items() if name in SHOWN}
    lines = "\n".join(f"{name}: {fact.value} ({fact.source})" for name, fact in known.items())
    if inspection.problem:
        says = f"cannot be inspected: {inspection.problem.what}"
        return [ABOUT.warning("facts", says, lines, inspection.problem.remedies)]
    values = {name: fact.value for name, fact in known.items()}
    version = inspection.facts["horovod.version"].value
    if version in ABSENT:
        return [_without_horovod(values, lines)]
    unknown = ", ".join(name for name, value in values.items() if value == UNKNOWN)
    says = f"Horovod {version}" + (f"; unknown: {unknown}" if unknown else "")
    return [ABOUT.ok("facts", says, lines)]


def _without_horovod(values: Mapping[str, object], lines: str) -> Finding:
    versions = {name.partition(".")[0]: values.get(name, "none") for name in FRAMEWORKS}
    names = ", ".join(f"{name} {value}" for name, value in versions.items() if value not in ABSENT)
    if names:
        return ABOUT.ok("facts", f"{names}; without Horovod", lines)
    says = "neither Horovod, torch nor TensorFlow was found in it"
    return ABOUT.failure("facts", says, lines, command("runner", "build", "cpu"))


def image_plan(made: Plan) -> list[Finding]:
    """Return what a launch would do here, and why it would not."""
    lines = "\n".join(f"{choice.id}: {choice.text} ({choice.reason})" for choice in made.choices)
    warnings = [ABOUT.warning("plan", one.what, "", one.remedies) for one in made.warnings]
    refusals = [
        ABOUT.failure("plan", item.what, item.evidence, item.remedies) for item in made.refusals
    ]
    ranks = f"{made.resources.tasks} ranks"
    says = f"{made.launching.launcher}, controller {made.wireup.controller}, {ranks}"
    works = [] if refusals else [ABOUT.ok("plan", says, lines)]
    return [*works, *warnings, *refusals]
