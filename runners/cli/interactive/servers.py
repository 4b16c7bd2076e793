"""`runner jupyter` and `runner tensorboard`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...core.command_line import CommandLine
from ...core.errors import NotFound, UsageError
from ...core.job_record import Job, JobPaths
from ...core.model import BindMount, RuntimeName
from ...core.remedy import change
from ...jobs import find
from ...launching import submit, suggest
from ...launching.submit import PreparedSession
from .. import invocation, options, printer
from ..invocation import SettingsCommand
from ..train import plan_view
from . import web_session

JUPYTER_EXAMPLE = """\b
Examples:
  runner jupyter --image horovod_cpu.sif
  runner jupyter --image horovod_gpu.sif --gpus-per-node 1 -c 8 -t 4:00:00
  runner jupyter jupyter-1
  runner jupyter --kernel horovod --image horovod_cpu.sif
"""
TENSORBOARD_EXAMPLE = """\b
Examples:
  runner tensorboard
  runner tensorboard torch_mnist-1 torch_mnist-2 -t 30
  runner tensorboard --scheduler local
  runner tensorboard tensorboard-1
"""
ONE = {"nodes": 1, "ntasks": 1, "cpus_per_task": 1}
_loopback = click.option(
    "--loopback",
    is_flag=True,
    help="listen on the node's loopback address only; the tunnel then needs ssh to the node",
)
_as_json = click.option(
    "--json", "as_json", is_flag=True, help="print JSON once the server answers, and exit"
)


@click.command("jupyter", cls=SettingsCommand, epilog=JUPYTER_EXAMPLE)
@options.job
@options.setting_options
@click.option(
    "--kernel",
    metavar="NAME",
    help="write a kernel of the image for another Jupyter server, such as the site's hub, and stop",
)
@_loopback
@options.dry_run
@_as_json
def jupyter_command(job: str | None, kernel: str | None, **values: Any) -> None:
    """Start JupyterLab in the image on a node and print how to connect; or reconnect to JOB.

    It serves the current folder, protected by a token that only you can read, until the job ends:
    without --time after one hour. Ctrl-C asks whether to detach from the job or to cancel it.
    With --kernel it starts nothing: the kernel appears in a Jupyter server of your own account.
    """
    if kernel:
        _write_kernel(kernel, job, values)
        return
    if job:
        found = options.find(job, values["runs_dir"])
        sys.exit(web_session.back(*found, values, "jupyter"))
    ready = _prepared("jupyter", values)
    web_session.start(ready, values, "jupyter", os.getcwd())


@click.command("tensorboard", cls=SettingsCommand, epilog=TENSORBOARD_EXAMPLE)
@click.argument("job", nargs=-1)
@options.setting_options
@_loopback
@options.dry_run
@_as_json
def tensorboard_command(job: tuple[str, ...], **values: Any) -> None:
    """Start TensorBoard for one or more runs (default: the last one); or reconnect to JOB.

    It runs in a separate small job, in the image of the first run, protected by a token that only
    you can read, until the job ends: without --time after one hour.
    """
    folder = options.folder(values["runs_dir"])
    if len(job) == 1 and (found := find.find(job[0], folder))[0].private.is_dir():
        sys.exit(web_session.back(*found, values, "tensorboard"))
    shown = [find.find(word, folder) for word in job] or [_last(folder)]
    if values["image"] is None:
        options.check_ours(shown[:1])  # its image is what runs
    ready = _seeing(_prepared("tensorboard", _one_task(values, shown[0][1])), shown)
    runs = [run for run, _ in shown]
    for run in (run for run in runs if not run.tensorboard.is_dir()):
        printer.tell(
            f"warning: {run.root.name} has written nothing for TensorBoard so far\n"
            '  try: SummaryWriter(os.environ["OUTPUT_DIR"] + "/tensorboard"); its default is ./runs'
        )
    web_session.start(ready, values, "tensorboard", str(ready.paths.boards), runs)


def _write_kernel(name: str, job: str | None, values: dict[str, Any]) -> None:
    from ...submit.sessions import kernel  # a session needs none of it

    if job or values["as_json"] or values["loopback"]:
        raise UsageError("--kernel takes neither JOB, --json nor --loopback: it starts no server")
    folder = kernel.folder(name)
    ready = _prepared("jupyter", values)
    plan_view.accept(ready.plan)
    made = kernel.draft(name, folder, ready.plan, suggest.text(change(), _without_values()))
    if values["dry_run"]:
        click.echo(f"{made.spec}\n\n{made.script}", nl=False)
        return
    kernel.write(made)
    click.echo(folder / kernel.SPEC)


def _without_values() -> CommandLine:
    """Return what was typed, of --env the names alone: the values stand in a file of their own."""
    line = invocation.again()
    settings = [
        each._replace(value=str(each.value).partition("=")[0]) if each.name == "env" else each
        for each in line.settings
    ]
    return replace(line, settings=tuple(settings))


def _prepared(name: str, values: dict[str, Any]) -> PreparedSession:
    return submit.prepare_session(name, options.flags(values), values["dry_run"], printer.Console())


def _last(folder: Path) -> tuple[JobPaths, Job]:
    """Return the last run that has written something; raise NotFound when there is none."""
    runs = [run for run in find.all_runs(folder) if run[0].tensorboard.is_dir()]
    if not runs:
        raise NotFound(f"no run in {folder} has written for TensorBoard", "", "--runs-dir DIR")
    return runs[-1]


def _one_task(values: dict[str, Any], first: Job) -> dict[str, Any]:
    """Return the options for one task, in the image of a run, unless they say otherwise."""
    values = {**values, **{name: n for name, n in ONE.items() if values[name] is None}}
    if values["image"] is None and first.image:
        values["image"] = first.image
        if values["runtime"] is None and Path(first.image, "bin", "python").exists():
            values["runtime"] = "none"
    return values


def _seeing(ready: PreparedSession, shown: list[tuple[JobPaths, Job]]) -> PreparedSession:
    if ready.plan.launching.runtime is RuntimeName.NONE:
        return ready
    binds = [BindMount(str(run.root), str(run.root), read_only=True) for run, _ in shown]
    return replace(ready, plan=replace(ready.plan, binds=(*ready.plan.binds, *binds)))
