"""`runner jupyter` and `runner tensorboard`."""

from __future__ import annotations

from typing import Any

import click

from ...core.errors import UsageError
from ...launching import kernel as kernels
from ...launching import servers, sessions
from ...launching.sessions import SessionRequest
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
def jupyter_command(
    job: str | None, kernel: str | None, loopback: bool, dry_run: bool, as_json: bool, **values: Any
) -> None:
    """Start JupyterLab in the image on a node and print how to connect; or reconnect to JOB.

    It serves the current folder, protected by a token that only you can read, until the job ends:
    without --time after one hour. Ctrl-C asks whether to detach from the job or to cancel it.
    With --kernel it starts nothing: the kernel appears in a Jupyter server of your own account.
    """
    flags = options.flags(values)
    if kernel:
        if job or as_json or loopback:
            text = "--kernel takes neither JOB, --json nor --loopback: it starts no server"
            raise UsageError(text)
        _write_kernel(kernel, flags, dry_run)
        return
    if job:
        run = options.find(job, values["runs_dir"])
        web_session.reconnect(run, flags, servers.JUPYTER, as_json)
        return
    plan_view.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run, loopback)
    made = servers.jupyter(request, printer.Console())
    web_session.start(made, servers.JUPYTER, dry_run, as_json)


@click.command("tensorboard", cls=SettingsCommand, epilog=TENSORBOARD_EXAMPLE)
@click.argument("job", nargs=-1)
@options.setting_options
@_loopback
@options.dry_run
@_as_json
def tensorboard_command(
    job: tuple[str, ...], loopback: bool, dry_run: bool, as_json: bool, **values: Any
) -> None:
    """Start TensorBoard for one or more runs (default: the last one); or reconnect to JOB.

    It runs in a separate small job, in the image of the first run, protected by a token that only
    you can read, until the job ends: without --time after one hour.
    """
    flags = options.flags(values)
    shown = servers.runs_to_show(job, options.folder(values["runs_dir"]))
    if session := servers.session_meant(job, shown):
        web_session.reconnect(session, flags, servers.TENSORBOARD, as_json)
        return
    plan_view.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run, loopback)
    made = servers.tensorboard(request, shown, printer.Console())
    web_session.start(made, servers.TENSORBOARD, dry_run, as_json)


def _write_kernel(name: str, flags: dict[str, Any], dry_run: bool) -> None:
    plan_view.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run)
    made = sessions.draft_kernel(request, name, printer.Console())
    plan_view.warn(made.plan)
    if dry_run:
        click.echo(f"{made.spec}\n\n{made.script}", nl=False)
        return
    kernels.write(made)
    click.echo(made.paths.root / kernels.SPEC)
