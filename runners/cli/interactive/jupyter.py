"""`runner jupyter`: JupyterLab on a node, or a kernel for another Jupyter server."""

from __future__ import annotations

from typing import Any

import click

from ...core.errors import UsageError
from ...sessions import kernel as kernels
from ...sessions import open_session, servers
from ...sessions.open_session import SessionRequest
from .. import invocation, options, printer
from ..invocation import SettingsCommand
from ..train import plan_summary
from . import web_session

EXAMPLE = """\b
Examples:
  runner jupyter --image horovod_cpu.sif
  runner jupyter --image horovod_gpu.sif --gpus-per-node 1 -c 8 -t 4:00:00
  runner jupyter jupyter-1
  runner jupyter --kernel horovod --image horovod_cpu.sif
"""


@click.command("jupyter", cls=SettingsCommand, epilog=EXAMPLE)
@options.job
@options.setting_options
@click.option(
    "--kernel",
    metavar="NAME",
    help="write a kernel of the image for another Jupyter server, such as the site's hub, and stop",
)
@web_session.loopback
@options.dry_run
@web_session.as_json
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
            raise UsageError(text, id="kernel-without-server")
        _write_kernel(kernel, flags, dry_run)
        return
    if job:
        run = options.find(job, values["runs_dir"])
        web_session.reconnect(run, flags, servers.JUPYTER, as_json)
        return
    plan_summary.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run, loopback)
    made = servers.jupyter(request, printer.Console())
    web_session.start(made, servers.JUPYTER, dry_run, as_json)


def _write_kernel(name: str, flags: dict[str, Any], dry_run: bool) -> None:
    plan_summary.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run)
    made = open_session.draft_kernel(request, name, printer.Console())
    plan_summary.warn(made.plan)
    if dry_run:
        click.echo(f"{made.spec}\n\n{made.script}", nl=False)
        return
    kernels.write(made)
    click.echo(made.paths.root / kernels.SPEC)
