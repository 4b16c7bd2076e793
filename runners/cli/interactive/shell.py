"""`runner shell` and `runner exec`: at a terminal in a container."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ...core import quoting, shell
from ...core.errors import Refused
from ...launching import submit
from ...schedulers import capabilities
from ...submit import launch
from ...submit.launch import Draft
from ...submit.sessions import session, terminal
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
def shell_command(command: tuple[str, ...], **values: Any) -> None:
    """Allocate nodes; open a shell, or run COMMAND, in the image on the first node.

    The allocation ends when the shell or COMMAND exits, without --time after one hour at most.
    """
    ready = submit.prepare_session(
        "shell", options.flags(values), values["dry_run"], printer.Console()
    )
    plan_view.accept(ready.plan)
    text = session.interactive(
        ready.plan, ready.paths, os.getcwd(), _within(command), _at_terminal()
    )
    if values["dry_run"]:
        click.echo(text, nl=False)
        return
    sys.exit(_run(Draft(ready.plan, ready.paths, text, typed=invocation.again())))


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
    paths, job_record = options.find(job, runs_dir)
    options.check_ours([(paths, job_record)])  # what leads into the container lies there
    sys.exit(terminal.run(paths, job_record, _within(command), pty=_at_terminal(), **where))


def _within(words: Sequence[str]) -> list[str]:
    """Return what to run within: a shell, unless something was asked for."""
    if words and words[0] in ("mpirun", "mpiexec"):
        # Called by its full path, as Apptainer does, Open MPI's would put its own folder before
        # the environment's on the ranks' PATH, as with --prefix.
        return ["env", *words]
    return list(words) or [
        "sh",
        "-c",
        "if command -v bash > /dev/null; then exec bash; fi; exec sh",
    ]


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _run(draft: Draft) -> int:
    scheduler = capabilities(draft.plan.launching.scheduler)
    if not scheduler.queue:
        launch.write_alone(draft)
        return shell.hand_over(session.in_shell(draft.paths))
    if scheduler.interactive:
        return _on_the_node(draft)
    if not scheduler.allocates:
        raise Refused(
            f"{scheduler.title}: runner cannot wait for nodes at a terminal",
            "its own command gives a shell on a node",
            "runner shell --scheduler local, there",
        )
    allocation = terminal.TerminalAllocation(draft, printer.Console())
    code = allocation.run()
    if not allocation.granted:
        click.echo("\n".join(["", *allocation.output[-1:]]), err=True)
    return code


def _on_the_node(draft: Draft) -> int:
    """Open a shell on the job's first node, and say what leads from there into the image."""
    launch.write_alone(draft)
    then = quoting.join(session.in_shell(draft.paths))
    printer.tell(f"on the node, type: {then}")
    return shell.hand_over(session.allocation(draft.plan, draft.paths))
