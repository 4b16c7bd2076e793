"""`runner launch`: plans a job, submits it, and waits for it or follows it if asked."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...core import signals
from ...launching import submit
from ...launching.submit import LaunchRequest
from ...schedulers import capabilities
from ...settings import sweep
from ...submit import launch
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import launch_view, plan_view
from .launch_view import LaunchOutput

EXAMPLE = """\b
Examples:
  runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
  runner launch --image horovod_cpu.sif -N 2 --controller gloo --follow tf_mnist
  runner launch --image my.sif --gpus-per-node 4 -t 2:00:00 train.py -- --lr 0.1
"""


@click.command("launch", cls=TrainerCommand, epilog=EXAMPLE)
@click.argument("trainer")
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
    trainer: str, args: tuple[str, ...], dry_run: bool, force: bool, wait: bool, **values: Any
) -> None:
    """Run TRAINER, a packaged recipe or your own .py, with ARGS on N ranks in a container."""
    ranks = options.ranks(values["rank"], values["all_ranks"])
    several = values["array"] is not None or values["sweep"]
    array = sweep.variants(values["array"], values["sweep"]) if several else None
    flags, typed = options.flags(values), invocation.command_line()
    plan_view.warn_of_secrets()
    request = LaunchRequest(trainer, args, flags, typed, array is not None, dry_run, force)
    with signals.saying("nothing was submitted"):
        made = submit.accepted(request, printer.Console())
        plan_view.warn(made)
    as_json, parsable = values["as_json"], values["parsable"]
    # A job that runs here is followed, as any command would be, unless a program asks.
    stays = not (capabilities(made.launching.scheduler).queue or as_json or parsable)
    output = LaunchOutput(
        as_json=as_json,
        parsable=parsable,
        verbose=values["verbose"],
        waits=values["follow"] or wait or stays,
        silent=wait or as_json or parsable,
        ranks=ranks,
    )
    if array:
        from . import launch_array

        launch_array.launch(made, array, output, dry_run)
    elif dry_run:
        launch_view.print_draft(launch.draft(made), as_json)
    else:
        with signals.held():
            draft, job = submit.one(made, invocation.again())
            launch_view.announce(draft, job, output)
        if output.waits:
            sys.exit(launch_view.to_the_end(draft.paths, job, output, values["stall_after"]))
