"""`runner shell`: a shell in an image on an allocated node."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...sessions import open_session
from ...sessions.open_session import SessionRequest
from .. import invocation, options, printer
from ..invocation import SettingsCommand
from ..train import plan_summary

EXAMPLE = """\b
Examples:
  runner shell --image horovod_cpu.sif
  runner shell --image horovod_gpu.sif --gpus-per-node 1 -t 30 --data /scratch/ada/cifar10
  runner shell --image horovod_cpu.sif -c 4 -- horovodrun -np 2 python3 train.py
"""


@click.command("shell", cls=SettingsCommand, epilog=EXAMPLE)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@options.dry_run
def shell_command(command: tuple[str, ...], dry_run: bool, **values: Any) -> None:
    """Allocate nodes; open a shell, or run COMMAND, in the image on the first node.

    The allocation ends when the shell or COMMAND exits, without --time after one hour at most.
    """
    plan_summary.warn_of_secrets()
    request = SessionRequest(options.flags(values), invocation.again(), dry_run)
    listener = printer.Console()
    draft = open_session.draft_shell(request, command, printer.at_terminal(), listener)
    plan_summary.warn(draft.plan)
    if dry_run:
        click.echo(draft.text, nl=False)
        return
    end = open_session.open_shell(draft, listener)
    if end.last_words:
        click.echo(f"\n{end.last_words}", err=True)
    sys.exit(end.code)
