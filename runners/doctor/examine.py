"""Examines this machine, an image and a short job. Subjects are looked at side by side."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contract.interfaces import interfaces
from ..core import places
from ..core.command_line import CommandLine
from ..core.errors import RunnerError, UsageError
from ..core.job_record import Job, JobPaths
from ..core.model import RuntimeName, SchedulerName
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.site import Site
from ..images import inspect
from ..launching import gather
from ..runtimes import FILES
from ..settings import config
from ..sites import named_site
from . import timed, trial_job
from .checks import (
    check_gpus,
    check_image,
    check_network,
    check_runtime,
    check_slurm,
    check_variables,
    job,
    scratch,
)
from .finding import Finding
from .timed import Subject, in_time


def examine(
    flags: Mapping[str, Any], max_wait: float | None, typed: CommandLine, listener: Listener
) -> list[Finding]:
    """Look at this machine, at the image if one is named, and at a short job with it.

    `max_wait` is how many seconds to wait for the job, None for no job; `typed` asks for it. Raises
    UsageError where a job is wanted and no image named, and for a site that is not here.
    """
    site = named_site.find(flags, trial_job.PRESET, fresh=True)
    named_site.only_here(site)
    settings = config.load(flags, os.environ, trial_job.PRESET, site.profile)
    name = settings.get("image")
    if max_wait is not None and not name:
        raise UsageError(
            "a job needs an image", remedy="--image horovod_cpu.sif", id="doctor-job-without-image"
        )
    made, about = _plan(flags, site, max_wait is None, listener) if name else (None, [])
    runs_dir = settings.runs_dir
    file = made.spec.image.path if made and _is_on_disk(made, *FILES) else None
    findings = timed.examine(_subjects(site, runs_dir, file)) + about
    if max_wait is None or made is None or made.refusals:
        return findings
    return findings + _trial(made, max_wait, typed, listener)


def _trial(made: Plan, max_wait: float, typed: CommandLine, listener: Listener) -> list[Finding]:
    try:
        paths, submitted = trial_job.submit(made, typed)
    except RunnerError as error:
        return [check_image.refused(error)]
    listener.tell(f"job {submitted.id} submitted, in {paths.root}")
    return of_trial(paths, submitted, max_wait, listener)


def of_trial(paths: JobPaths, submitted: Job, max_wait: float, listener: Listener) -> list[Finding]:
    """Wait for a trial that was submitted before; return its findings."""
    return job.check(trial_job.wait(paths, submitted, max_wait, listener))


def _plan(
    flags: Mapping[str, Any], site: Site, dry_run: bool, listener: Listener
) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the job, None when there can be none, and what there is to say."""
    try:
        made = gather.plan_for(trial_job.TRAINER, trial_job.PRESET, flags, site, dry_run, listener)
        seen = _is_on_disk(made, *FILES, RuntimeName.NONE)
        about = check_image.facts(inspect.inspect(made.spec.image.path)) if seen else []
        return made, [*about, *check_image.plan(made)]
    except RunnerError as error:
        return None, [check_image.refused(error)]


def _is_on_disk(made: Plan, *runtimes: RuntimeName) -> bool:
    """Whether the image is a file, or a folder, on this machine, for one of these runtimes."""
    return made.launching.runtime in runtimes and made.spec.image.path.exists()


def _subjects(site: Site, runs_dir: Path, file: Path | None) -> list[Subject]:
    """Return what is to be looked at; the image `file` is tried as a job would start it."""
    return [
        Subject(check_runtime.ABOUT.subject, lambda: _containers(site, file), 180.0),
        Subject(check_slurm.ABOUT.subject, lambda: _scheduler(site), 30.0),
        Subject(check_gpus.ABOUT.subject, lambda: check_gpus.check(check_gpus.probe()), 40.0),
        Subject(
            check_network.ABOUT.subject, lambda: check_network.check(check_network.probe()), 20.0
        ),
        Subject(scratch.ABOUT.subject, lambda: scratch.check(scratch.probe(runs_dir)), 40.0),
        Subject(check_variables.ABOUT.subject, _environment, 20.0),
    ]


def _containers(site: Site, file: Path | None) -> list[Finding]:
    runtime = shutil.which("apptainer") or shutil.which("singularity")
    if runtime is None:
        return check_runtime.absent(site)
    findings = check_runtime.check(check_runtime.probe(runtime, places.user(), _workplace()))
    if file is not None:
        findings.append(
            check_runtime.run(check_runtime.start("running the image", runtime, [str(file)]))
        )
    return findings


def _workplace() -> Path:
    """Return a folder to try things in: scratch where it answers and may be written in."""
    folder = places.scratch()
    usable = in_time(lambda: folder.is_dir() and os.access(folder, os.W_OK), scratch.SECONDS)
    return folder if usable else Path(tempfile.gettempdir())


def _scheduler(site: Site) -> list[Finding]:
    if SchedulerName.SLURM not in site.schedulers:
        return check_slurm.absent(site)
    return check_slurm.check(site, check_slurm.probe())


def _environment() -> list[Finding]:
    return check_variables.check(os.environ, [item.name for item in interfaces()])
