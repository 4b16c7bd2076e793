"""`runner tensorboard`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..core.errors import NotFound
from ..core.job_record import Job, JobPaths
from ..core.model import BindMount
from ..jobs import find
from . import options, run_arguments, sessions, web_session
from .sessions import Prepared
from .typed import SettingsCommand

EXAMPLE = """\b
Examples:
  runner tensorboard
  runner tensorboard torch_mnist-1 torch_mnist-2 -t 30
  runner tensorboard --scheduler local
  runner tensorboard tensorboard-1
"""
ONE = {"nodes": 1, "ntasks": 1, "cpus_per_task": 1}


@click.command("tensorboard", cls=SettingsCommand, epilog=EXAMPLE)
@click.argument("job", nargs=-1)
@options.setting_options
@web_session.of_sessions
def tensorboard_command(job: tuple[str, ...], as_json: bool, **values: Any) -> None:
    """Show what runs, the last one by default, have written for TensorBoard; or come back to JOB.

    It runs in a small job of its own, in the image of the first run, behind a token that only you
    can read, and ends with the job: without --time after an hour.
    """
    flags, folder = options.flags(values), run_arguments.folder(values["runs_dir"])
    if len(job) == 1 and (found := find.find(job[0], folder))[0].private.is_dir():
        sys.exit(web_session.back(*found, flags, "tensorboard", as_json))
    shown = [find.find(word, folder) for word in job] or [_last(folder)]
    ready = _seeing(sessions.prepare("tensorboard", _one_task(values, *shown[0])), shown)
    draft = web_session.draft(ready, "tensorboard", str(ready.paths.boards), values["loopback"])
    if values["dry_run"]:
        click.echo(draft.text, nl=False)
        return
    submitted = web_session.submitted(draft, as_json)
    _link(ready.paths, shown)
    sys.exit(web_session.attend(draft.paths, submitted, ready.site, "tensorboard", as_json))


def _last(folder: Path) -> tuple[JobPaths, Job]:
    """Return the last run that has written something; raise NotFound when there is none."""
    found = [run for run in find.all_runs(folder) if run[0].tensorboard.is_dir()]
    if not found:
        raise NotFound(f"no run in {folder} has written for TensorBoard", "", "--runs-dir DIR")
    return found[-1]


def _one_task(values: dict[str, Any], paths: JobPaths, first: Job) -> dict[str, Any]:
    """Return the options for one task, in the image of a run, unless they say otherwise."""
    values = {**values, **{name: n for name, n in ONE.items() if values[name] is None}}
    if values["image"] is None and first.image:
        values["image"] = first.image
        if values["runtime"] is None and Path(first.image, "bin", "python").exists():
            values["runtime"] = "none"
    return values


def _seeing(ready: Prepared, shown: list[tuple[JobPaths, Job]]) -> Prepared:
    """Return the session with the runs' folders in it, read-only."""
    if ready.plan.runtime == "none":
        return ready
    binds = [BindMount(str(run.root), str(run.root), read_only=True) for run, _ in shown]
    return replace(ready, plan=replace(ready.plan, binds=(*ready.plan.binds, *binds)))


def _link(paths: JobPaths, shown: list[tuple[JobPaths, Job]]) -> None:
    """Let the runs appear under their names; one that has written nothing yet may do so later."""
    paths.boards.mkdir()
    for run, _ in shown:
        (paths.boards / run.root.name).symlink_to(run.tensorboard)
