"""`runner shell`."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..core import shell as terminal
from ..core import tokens
from ..core.errors import Refused, SystemFault
from ..core.job_record import Job
from ..jobs import job_status
from ..schedulers import capabilities
from ..submit import launch
from ..submit.launch import Draft
from ..submit.sessions import session
from ..submit.sessions.terminal import Allocation
from . import common_options, follow, options, sessions
from .typed import SettingsCommand

EXAMPLE = """\b
Examples:
  runner shell --image horovod_cpu.sif
  runner shell --image horovod_gpu.sif --gpus-per-node 1 -t 30 --data /scratch/ada/cifar10
  runner shell --image horovod_cpu.sif -c 4 -- horovodrun -np 2 python3 train.py
"""


@click.command("shell", cls=SettingsCommand, epilog=EXAMPLE)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@common_options.dry_run
def shell_command(command: tuple[str, ...], **values: Any) -> None:
    """Wait for nodes; then open a shell, or run COMMAND, in the image on the first of them.

    The allocation ends with it. Without --time it ends after an hour.
    """
    ready = sessions.prepare("shell", values)
    pty = sys.stdin.isatty() and sys.stdout.isatty()
    words = sessions.command(command)
    text = session.interactive(ready.plan, ready.paths, ready.cwd, words, pty)
    draft = ready.draft(text)
    if values["dry_run"]:
        click.echo(text, nl=False)
        return
    sys.exit(_run(draft))


def _run(draft: Draft) -> int:
    scheduler = capabilities(draft.plan.scheduler)
    if not scheduler.queue:
        with launch.claimed(draft.paths.root):
            launch.write(draft)
        return terminal.hand_over(session.in_shell(draft.paths))
    if scheduler.interactive:
        return _on_the_node(draft)
    if not scheduler.allocates:
        raise Refused(
            f"{scheduler.title}: runner cannot wait for nodes at a terminal",
            "its own command gives a shell on a node",
            "runner shell --scheduler local, there",
        )
    allocation = Allocation(draft, Waiting(draft).tell)
    code = allocation.run()
    if not allocation.granted:
        click.echo("\n".join(["", *allocation.said[-1:]]), err=True)
    return code


def _on_the_node(draft: Draft) -> int:
    """Open a shell on the job's first node, and say what leads from there into the image."""
    with launch.claimed(draft.paths.root):
        launch.write(draft)
    then = tokens.join(session.in_shell(draft.paths))
    click.echo(f"runner: on the node, type: {then}", err=True)
    return terminal.hand_over(session.allocation(draft.plan, draft.paths))


class Waiting:
    """Says why the nodes are not there yet; each answer once."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.told = draft, ""

    def tell(self, job: Job, granted: bool) -> None:
        """Say that the job has its nodes; else ask how it stands, and say so if that is new."""
        if granted:
            click.echo(f"runner: job {job.id} has its nodes, until this command ends", err=True)
            return
        try:
            status = job_status.status(self.draft.paths, job)
        except SystemFault:
            return  # salloc waits for the controller too, and says what it must
        text = follow.beside(job, status)
        text += f" ({status.reason})" if status.reason else ""
        if text != self.told:
            self.told = text
            click.echo(f"runner: {text}; Ctrl-C gives it up", err=True)
