"""What the commands that get inside have in common: the plan, and what is said of a session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..core.job_record import Job, JobPaths, next_folder
from ..core.model import Plan
from ..core.site import Site
from ..injob import folders
from ..submit.launch import Draft
from ..submit.sessions import session
from . import choices_view, launch_summary, make_plan, options, suggest, typed


@dataclass(frozen=True)
class Prepared:
    """What a session starts from: its plan, the site, the current folder, the run's folder."""

    plan: Plan
    site: Site
    cwd: str
    paths: JobPaths

    def draft(self, text: str, private: bool = False) -> Draft:
        """Return what is going to be submitted; `text` is its script."""
        packages = (folders.SERVE,) if private else ()
        return Draft(self.plan, self.paths, text, packages, typed.again(), private=private)


def prepare(name: str, values: dict[str, Any]) -> Prepared:
    """Return the plan for a session called `name`; raise Refused when it cannot work."""
    preset, flags = session.preset(name), options.flags(values)
    here = make_plan.look_around(flags, preset)
    dry_run = bool(values["dry_run"])
    made = make_plan.plan_for(session.trainer(name), preset, flags, here, dry_run)
    plan, cwd = session.of(made, os.getcwd()), os.getcwd()
    choices_view.warn(plan)
    if plan.refusals:
        raise suggest.refused(plan.refusals)
    return Prepared(plan, here, cwd, JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name)))


def told(draft: Draft, job: Job) -> None:
    """Say that a job was submitted, and what runs where; its script has the reasons."""
    launch_summary.show(draft.plan, verbose=False)
    click.echo(f"job {job.id} submitted, in {draft.paths.root}", err=True)


def own_folder(paths: JobPaths) -> str:
    """Return a run's folder as one types it from here."""
    try:
        return shlex.quote(str(paths.root.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(paths.root))


def command(words: Sequence[str]) -> list[str]:
    """Return what to run within: a shell, unless something was asked for."""
    if words and words[0] in ("mpirun", "mpiexec"):
        # Called by its full path, as Apptainer does, Open MPI's would put its own folder before
        # the environment's on the ranks' PATH, as with --prefix.
        return ["env", *words]
    return list(words) or [
        "sh",
        "-c",
        "if command -v bash > /dev/null; then exec bash; fi; exec sh",
    ]
