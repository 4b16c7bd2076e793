"""`runner launch`: plans a job, submits it, and waits for it or follows it if asked."""

from __future__ import annotations

from typing import Any

import click

from ...core import signals
from ...launching import submit
from ...launching.submit import LaunchRequest
from ...settings import sweep
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import launch_view, plan_view
from .launch_view import LaunchOutput

EXAMPLE = """\b
Examples:
  runner launch --image horovod_cpu.sif --nodes 2
  runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
  runner launch --image horovod_cpu.sif -N 2 --controller gloo --follow tf_mnist
  runner launch --image my.sif --gpus-per-node 4 -t 2:00:00 train.py -- --lr 0.1
"""


@click.command("launch", cls=TrainerCommand, epilog=EXAMPLE)
@click.argument("trainer", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@options.setting_options
@click.option(
    "-a", "--array", metavar="N-M[%K]", help="submit a job array: one run per SLURM_ARRAY_TASK_ID"
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=V1,V2",
    help="run once per value of the trainer's option --NAME; repeat it for all combinations",
)
@options.dry_run
@click.option("--force", is_flag=True, help="submit even if the plan reports that it cannot work")
@click.option("--wait", is_flag=True, help="wait for the job to end; exit with its exit code")
@click.option("--follow", is_flag=True, help="as --wait, and show the log and the result")
@options.rank
@options.all_ranks
@click.option("-v", "--verbose", is_flag=True, help="print every decision with its reason")
@click.option("--parsable", is_flag=True, help="print only the job ID")
@options.as_json
def launch_command(
    trainer: str | None,
    args: tuple[str, ...],
    dry_run: bool,
    force: bool,
    wait: bool,
    **values: Any,
) -> None:
    """Run TRAINER, a packaged recipe or your own .py, with ARGS on N ranks in a container.

    Without TRAINER: torch_mnist, a test of a minute (tf_mnist in an image without PyTorch).
    """
    ranks = options.ranks(values["rank"], values["all_ranks"])
    several = values["array"] is not None or values["sweep"]
    runs = sweep.variants(values["array"], values["sweep"]) if several else None
    flags, typed = options.flags(values), invocation.command_line()
    plan_view.warn_of_secrets()
    request = LaunchRequest(trainer or "", args, flags, typed, runs, dry_run, force)
    with signals.saying("nothing was submitted"):
        made = submit.accepted(request, printer.Console())
        plan_view.warn(made)
    as_json, parsable = values["as_json"], values["parsable"]
    output = LaunchOutput(
        as_json=as_json,
        parsable=parsable,
        verbose=values["verbose"],
        waits=submit.waits(made, values["follow"] or wait, by_program=as_json or parsable),
        silent=wait or as_json or parsable,
        ranks=ranks,
        stall_after=values["stall_after"],
    )
    if runs:
        from . import launch_array

        launch_array.launch(made, runs, output, dry_run)
    else:
        launch_view.launch(made, output, dry_run)
