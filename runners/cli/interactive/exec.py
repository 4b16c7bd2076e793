"""`runner exec`: a command in the container of a running job."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...sessions import terminal
from .. import options, printer

EXAMPLE = """\b
Examples:
  runner exec 42 -- python3 -c 'import torch; print(torch.get_num_threads())'
  runner exec --all torch_mnist-3 -- df -h /tmp
  runner exec --host -w n2 42 -- top
  runner exec 42
"""


@click.command("exec", epilog=EXAMPLE)
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
    sys.exit(terminal.run(*run, command, pty=printer.at_terminal(), **where))
