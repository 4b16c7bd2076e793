"""What a session (shell, Jupyter, TensorBoard) starts from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ...core.job_record import JobPaths, next_folder
from ...core.plan import Plan
from ...core.site import Site
from ...injob import folders
from ...launching import gather, submit
from ...submit.launch import Draft
from ...submit.sessions import session
from .. import console, options, typed
from ..train import plan_view


@dataclass(frozen=True)
class Prepared:
    """What a session starts from: its plan, the site, the run's folder."""

    plan: Plan
    site: Site
    paths: JobPaths

    def draft(self, text: str, private: bool = False) -> Draft:
        packages = (folders.SERVE,) if private else ()
        return Draft(self.plan, self.paths, text, packages, typed.again(), private=private)


def prepare(name: str, values: dict[str, Any]) -> Prepared:
    """Return the plan for a session called `name`; raise Refused when it cannot work."""
    preset, flags = session.preset(name), options.flags(values)
    here = gather.look_around(flags, preset)
    dry_run, listener = values["dry_run"], console.Console()
    made = gather.plan_for(session.trainer(name), preset, flags, here, dry_run, listener)
    plan = session.of(made, os.getcwd())
    plan_view.warn(plan)
    submit.check(plan)
    return Prepared(plan, here, JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name)))
