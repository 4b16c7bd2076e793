"""What the doctor finds on this machine and of an image; the plan for the short job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import RunnerError, UsageError
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.site import Site
from ..launching import gather
from ..planning import execution
from ..settings import config
from . import job, machine, question
from .checks import image as image_check
from .finding import Finding


@dataclass(frozen=True)
class Examined:
    """The findings, and the plan of the short job: None where no image was named, or is refused."""

    findings: list[Finding]
    plan: Plan | None


def examine(flags: Mapping[str, Any], with_job: bool, listener: Listener) -> Examined:
    """Look at this machine, and at the image if one is named.

    Raises UsageError where a job is wanted and no image named, and for a site that is not here.
    """
    here = gather.look_around(flags, job.preset(), fresh=True)
    gather.only_here(here)
    settings = config.load(flags, os.environ, job.preset(), here.profile)
    name = settings.get("image")
    if with_job and not name:
        raise UsageError("a job needs an image", remedy="--image horovod_cpu.sif")
    made, about = _plan(flags, here, not with_job, listener) if name else (None, [])
    runs_dir = Path(settings.get("runs-dir")).absolute()
    image = made.spec.image.path if made and _is_on_disk(made, *execution.CONTAINERS) else None
    return Examined(question.examine(machine.subjects(here, runs_dir, image)) + about, made)


def _plan(
    flags: Mapping[str, Any], here: Site, dry_run: bool, listener: Listener
) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the job, None when there can be none, and what there is to say."""
    try:
        made = gather.plan_for(job.trainer(), job.preset(), flags, here, dry_run, listener)
        return made, [*_inspected(made, here), *image_check.plan(made)]
    except RunnerError as error:
        return None, [image_check.refused(error)]


def _is_on_disk(made: Plan, *runtimes: str) -> bool:
    """Whether the image is a file, or a folder, on this machine, for one of these runtimes."""
    return made.launching.runtime in runtimes and made.spec.image.path.exists()


def _inspected(made: Plan, here: Site) -> list[Finding]:
    from ..images import inspect

    if not _is_on_disk(made, *execution.CONTAINERS, "none"):
        return []
    facts = inspect.inspect(made.spec.image.path)
    return [*image_check.facts(facts), *image_check.fits(facts, here)]
