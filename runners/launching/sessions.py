"""Sessions (shell, Jupyter, TensorBoard): planned as a launch is, and submitted with a token."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.command_line import CommandLine
from ..core.job_record import Job, JobPaths, next_folder
from ..core.plan import Plan
from ..core.progress import Listener
from ..core.site import Site
from ..injob import SERVE
from ..schedulers import capabilities
from ..submit.launch import INJOB, Draft
from ..submit.sessions import session
from . import gather, submit


@dataclass(frozen=True)
class Prepared:
    """What a session starts from: its plan, which may have refusals, the site, the run's folder."""

    plan: Plan
    site: Site
    paths: JobPaths

    def script(self, server: str, folder: str, loopback: bool) -> str:
        """Return the script of a job that serves a folder, to its own node alone or to this one."""
        elsewhere = capabilities(self.plan.launching.scheduler).queue and not loopback
        towards = socket.gethostname() if elsewhere else ""
        return session.served(self.plan, self.paths, os.getcwd(), server, folder, towards)


def prepare(name: str, flags: Mapping[str, Any], dry_run: bool, listener: Listener) -> Prepared:
    """Return what a session called `name` starts from."""
    preset = session.preset(name)
    here = gather.look_around(flags, preset)
    made = gather.plan_for(session.trainer(name), preset, flags, here, dry_run, listener)
    plan = session.of(made, os.getcwd())
    return Prepared(plan, here, JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name)))


def serve(ready: Prepared, text: str, typed: CommandLine, runs: Sequence[JobPaths]) -> Job:
    """Submit a session in the browser; of `runs` it shows what they write."""
    paths = ready.paths
    draft = Draft(ready.plan, paths, text, (INJOB / SERVE,), typed, private=True)
    job = submit.drafted(draft)
    if runs:
        paths.boards.mkdir()
    for run in runs:  # one that has written nothing yet may do so later
        (paths.boards / run.root.name).symlink_to(run.tensorboard)
    return job
