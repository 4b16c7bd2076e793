"""Submits a plan: as one job, as the many runs of --array and --sweep, or as a session."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import signals
from ..core.command_line import COMMAND, CommandLine, Given
from ..core.job_record import Job, JobPaths, next_folder
from ..core.plan import Plan, Variable, Where
from ..core.progress import Listener
from ..core.site import Site
from ..core.trainer import Trainer
from ..schedulers import capabilities
from ..script import render
from ..settings import config, sweep, trainers
from ..settings.sweep import SweepRequest, SweepRun
from ..submit import job_array, launch
from ..submit.launch import Draft
from ..submit.sessions import session
from . import gather, suggest


def raise_if_refused(made: Plan) -> None:
    """Raise Refused for a plan that cannot work, with the changes that make it work."""
    if made.refusals:
        raise suggest.refused(made.refusals)


def one(made: Plan, typed: CommandLine) -> tuple[Draft, Job]:
    """Submit one job; `typed` is the command that asks for it. Raises as `submit_all`."""

    def attempt() -> tuple[Draft, Job]:
        draft = launch.draft(made, typed=typed)
        return draft, drafted([draft])[0]

    return launch.with_retries(attempt)


def several(
    made: Plan, sweep_request: SweepRequest, typed: CommandLine
) -> tuple[list[Draft], list[Job]]:
    """Submit all runs that are asked for, or none of them."""

    def attempt() -> tuple[list[Draft], list[Job]]:
        drafts = drafts_of(made, sweep_request.variants, typed)
        return drafts, drafted(drafts, sweep_request.at_once)

    return launch.with_retries(attempt)


def drafted(drafts: Sequence[Draft], at_once: int | None = None) -> list[Job]:
    """Submit what was drafted; keep the images of the store for as long as the runs' folders."""
    with signals.held():
        jobs = job_array.submit_all(drafts, at_once)
        for draft in drafts:
            if draft.plan.spec.image.digest:
                from ..images.store import in_use  # most images are plain files

                in_use.hold_run(draft.paths.root, draft.plan.spec.image.digest)
    return jobs


def drafts_of(made: Plan, variants: Sequence[SweepRun], launched: CommandLine) -> list[Draft]:
    """Return scripts and folders, such as runs/NAME-3_0 and runs/NAME-3_1; nothing is written."""
    stem, drafts = next_folder(made.spec.runs_dir, made.spec.name), []
    for place, variant in enumerate(variants):
        number = place if variant.task is None else variant.task
        plan, paths = _plan(made, variant), JobPaths(stem.with_name(f"{stem.name}_{number}"))
        text = render.render(plan, paths, os.getcwd())
        drafts.append(Draft(plan, paths, text, launched, variant.task, variant.varied))
    return drafts


def _plan(made: Plan, variant: SweepRun) -> Plan:
    """A task's number is told to the trainer, also where its script is run by hand."""
    spec = made.spec
    trainer = replace(spec.trainer, args=(*spec.trainer.args, *variant.args))
    if variant.args:
        trainers.check_arguments(trainer.name, trainer.args)
    if variant.task is None:
        return replace(made, spec=replace(spec, trainer=trainer))
    number = Variable(sweep.TASK, str(variant.task), "its task", where=Where.CONTAINER, forced=True)
    settings = (*spec.settings, Given("env", f"{sweep.TASK}={variant.task}"))
    changed = replace(spec, trainer=trainer, settings=settings)
    return replace(made, spec=changed, variables=(*made.variables, number))


@dataclass(frozen=True)
class PreparedSession:
    """What a session starts from: its plan, which may have refusals, the site, the run's folder."""

    plan: Plan
    site: Site
    paths: JobPaths

    def script(self, server: str, folder: str, loopback: bool) -> str:
        """Return the script of a job that serves a folder, to its own node alone or to this one."""
        elsewhere = capabilities(self.plan.launching.scheduler).queue and not loopback
        towards = socket.gethostname() if elsewhere else ""
        return session.served(self.plan, self.paths, os.getcwd(), server, folder, towards)


def prepare_session(
    name: str, flags: Mapping[str, Any], dry_run: bool, listener: Listener
) -> PreparedSession:
    # The site, files, variables and flags may change it.
    preset = config.ConfigLayer(COMMAND, {"time": session.TIME}, f"runner {name}")
    here = gather.probe_site(flags, preset)
    trainer = Trainer(name, None, None)  # stands in for one; the name is also the job's
    made = gather.plan_for(trainer, preset, flags, here, dry_run, listener)
    plan = session.of(made, os.getcwd())
    return PreparedSession(plan, here, JobPaths(next_folder(plan.spec.runs_dir, plan.spec.name)))


def serve(ready: PreparedSession, text: str, typed: CommandLine, runs: Sequence[JobPaths]) -> Job:
    """Submit a session in the browser; of `runs` it shows what they write."""
    paths = ready.paths
    (job,) = drafted([Draft(ready.plan, paths, text, typed, private=True)])
    if runs:
        paths.boards.mkdir()
    for run in runs:  # one that has written nothing yet may do so later
        (paths.boards / run.root.name).symlink_to(run.tensorboard)
    return job
