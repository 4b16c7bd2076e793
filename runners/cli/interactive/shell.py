"""`runner shell` and `runner exec`: at a terminal in a container."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...launching import sessions, terminal
from ...launching.sessions import SessionRequest
from .. import invocation, options, printer
from ..invocation import SettingsCommand
from ..train import plan_view

SHELL_EXAMPLE = """\b
Examples:
  runner shell --image horovod_cpu.sif
  runner shell --image horovod_gpu.sif --gpus-per-node 1 -t 30 --data /scratch/ada/cifar10
  runner shell --image horovod_cpu.sif -c 4 -- horovodrun -np 2 python3 train.py
"""
EXEC_EXAMPLE = """\b
Examples:
  runner exec 42 -- python3 -c 'import torch; print(torch.get_num_threads())'
  runner exec --all torch_mnist-3 -- df -h /tmp
  runner exec --host -w n2 42 -- top
  runner exec 42
"""


@click.command("shell", cls=SettingsCommand, epilog=SHELL_EXAMPLE)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@options.dry_run
def shell_command(command: tuple[str, ...], dry_run: bool, **values: Any) -> None:
    """Allocate nodes; open a shell, or run COMMAND, in the image on the first node.

    The allocation ends when the shell or COMMAND exits, without --time after one hour at most.
    """
    plan_view.warn_of_secrets()
    request = SessionRequest(options.flags(values), invocation.again(), dry_run)
    listener = printer.Console()
    draft = sessions.draft_shell(request, command, _at_terminal(), listener)
    plan_view.warn(draft.plan)
    if dry_run:
        click.echo(draft.text, nl=False)
        return
    end = sessions.open_shell(draft, listener)
    if end.last_words:
        click.echo(f"\n{end.last_words}", err=True)
    sys.exit(end.code)


@click.command("exec", epilog=EXEC_EXAMPLE)
@click.argument("job")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("-w", "--nodelist", metavar="NODE,...", help="run on these nodes of the job")
@click.option("--all", "all_nodes", is_flag=True, help="run on all nodes of the job")
@click.option("--host", is_flag=True, help="run on the node itself, not in the container")
@options.runs_dir
def exec_command(job: str, command: tuple[str, ...], runs_dir: str | None, **where: Any) -> None:
    """Run COMMAND, or a shell, in the container of the running JOB, on its first node.

    COMMAND uses the image, mounts and variables of the ranks and does not stop them. With several
    nodes, each line starts with the node's name. The exit code is that of COMMAND.
    """
    run = options.find(job, runs_dir)
    sys.exit(terminal.run(*run, command, pty=_at_terminal(), **where))


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
