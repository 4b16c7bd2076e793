"""Everything that can be asked without a job, as subjects that are looked at side by side."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from ..core import places
from ..core.site import Site
from ..injob.trial.interfaces import interfaces
from .checks import container, environment, gpu, network, scratch, slurm
from .finding import Finding
from .question import Subject, in_time


def subjects(site: Site, runs_dir: Path, image: Path | None = None) -> list[Subject]:
    """Return what is to be looked at; `image` is tried as a job would start it."""
    return [
        Subject(container.ABOUT.subject, lambda: _containers(site, image), 180.0),
        Subject(slurm.ABOUT.subject, lambda: _scheduler(site), 30.0),
        Subject(gpu.ABOUT.subject, lambda: gpu.check(gpu.look()), 40.0),
        Subject(network.ABOUT.subject, lambda: network.check(network.look()), 20.0),
        Subject(scratch.ABOUT.subject, lambda: scratch.check(scratch.look(runs_dir)), 40.0),
        Subject(environment.ABOUT.subject, _environment, 20.0),
    ]


def _containers(site: Site, image: Path | None) -> list[Finding]:
    command = shutil.which("apptainer") or shutil.which("singularity")
    if command is None:
        return container.absent(site)
    found = container.check(container.look(command, places.user(), _workplace()))
    if image is not None:
        found.append(container.run(container.start("the image", command, [str(image)])))
    return found


def _workplace() -> Path:
    """Return a folder to try things in: scratch where it answers and may be written in."""
    folder = places.scratch()
    there = in_time(lambda: folder.is_dir() and os.access(folder, os.W_OK), scratch.SECONDS)
    return folder if there else Path(tempfile.gettempdir())


def _scheduler(site: Site) -> list[Finding]:
    if "slurm" not in site.schedulers:
        return slurm.absent(site)
    return slurm.check(site, slurm.look())


def _environment() -> list[Finding]:
    env = os.environ
    names = [item.name for item in interfaces()]
    named = [
        path
        for name in (*environment.PATHS, *environment.FOLDERS)
        for path in environment.paths(name, env)
    ]
    gone = [path for path in named if not in_time(partial(os.path.exists, path), 5.0)]
    return environment.check(env, names, gone)
