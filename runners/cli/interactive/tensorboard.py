"""`runner tensorboard`: TensorBoard for one or more runs."""

from __future__ import annotations

from typing import Any

import click

from ...sessions import servers
from ...sessions.open_session import SessionRequest
from .. import invocation, options, printer
from ..invocation import SettingsCommand
from ..train import plan_summary
from . import web_session

EXAMPLE = """\b
Examples:
  runner tensorboard
  runner tensorboard torch_mnist-1 torch_mnist-2 -t 30
  runner tensorboard --scheduler local
  runner tensorboard tensorboard-1
"""


@click.command("tensorboard", cls=SettingsCommand, epilog=EXAMPLE)
@click.argument("job", nargs=-1)
@options.setting_options
@web_session.loopback
@options.dry_run
@web_session.as_json
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
    plan_summary.warn_of_secrets()
    request = SessionRequest(flags, invocation.again(), dry_run, loopback)
    made = servers.tensorboard(request, shown, printer.Console())
    web_session.start(made, servers.TENSORBOARD, dry_run, as_json)
