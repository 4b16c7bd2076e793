"""`runner exec`."""

from __future__ import annotations

import sys

import click

from ..submit.sessions import terminal
from . import common_options, run_arguments, sessions

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
@click.option("-w", "--nodelist", metavar="NODE,...", help="on these nodes of the job")
@click.option("--all", "all_nodes", is_flag=True, help="on all nodes of the job")
@click.option("--host", is_flag=True, help="on the node itself, not in the container")
@common_options.runs_dir
def exec_command(
    job: str,
    command: tuple[str, ...],
    nodelist: str | None,
    all_nodes: bool,
    host: bool,
    runs_dir: str | None,
) -> None:
    """Run COMMAND, or a shell, in the container of JOB while it runs, on its first node.

    The image, the mounts and the variables are those of the ranks, which go on beside it. With
    several nodes each line begins with the node's name. The exit code is the command's.
    """
    paths, found = run_arguments.find(job, runs_dir)
    code = terminal.run(
        paths,
        found,
        sessions.command(command),
        nodelist=nodelist,
        all_nodes=all_nodes,
        pty=sys.stdin.isatty() and sys.stdout.isatty(),
        host=host,
    )
    sys.exit(code)
