"""`runner launch`: plans a job, submits it, and waits for it or follows it if asked."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import click

from ...core import plan_record, signals
from ...core.errors import Refused
from ...core.job_record import Job, JobPaths
from ...core.plan import Plan
from ...launching import gather, submit
from ...schedulers import capabilities
from ...settings import sweep
from ...submit import launch
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import plan_view

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
def launch_command(trainer: str, args: tuple[str, ...], **values: Any) -> None:
    """Run TRAINER, a packaged recipe or your own .py, with ARGS on N ranks in a container."""
    values["ranks"] = options.ranks(values.pop("rank"), values.pop("all_ranks"))
    several = values["array"] is not None or values["sweep"]
    array = sweep.variants(values["array"], values["sweep"]) if several else None
    with signals.saying("nothing was submitted"):
        flags, listener = options.flags(values), printer.Console()
        made = gather.plan(trainer, args, flags, values["dry_run"], listener)
        _refuse(made, values["force"])
    # A job that runs here is followed, as any command would be, unless a program asks.
    for_a_program = values["parsable"] or values["as_json"]
    stays = not (capabilities(made.launching.scheduler).queue or for_a_program)
    values["waits"] = values["follow"] or values["wait"] or stays
    if array:
        from . import launch_array

        launch_array.launch(made, array, values)
        return
    if values["dry_run"]:
        draft = launch.draft(made)
        if values["as_json"]:
            facts = {"folder": str(draft.paths.root), "script": draft.text}
            printer.print_json({**facts, "plan": plan_record.as_data(made)})
        else:
            click.echo(draft.text, nl=False)
        return
    with signals.held():
        draft, job = submit.one(made, invocation.again())
        _announce(draft, job, values)
    if values["waits"]:
        sys.exit(_to_the_end(draft.paths, job, values))


def _refuse(made: Plan, force: bool) -> None:
    """Raise Refused for a plan that cannot work, with the commands that can; with force, say it."""
    plan_view.warn(made, force)
    try:
        submit.raise_if_refused(made)
    except Refused as error:
        if not force:
            raise
        from ...launching import working_remedies

        working_remedies.offer(error, invocation.command_line())
        printer.tell(f"warning: submitted by force, although {error}")


def _announce(draft: launch.Draft, job: Job, values: dict[str, Any]) -> None:
    if values["parsable"]:
        click.echo(job.id)
    elif not values["as_json"]:
        plan_view.show(draft.plan, values["verbose"])
        click.echo(f"job {job.id} submitted, in {draft.paths.root}", err=True)
        if not values["waits"]:
            click.echo(f"next: runner logs --follow {job.id}", err=True)
    elif not values["waits"]:
        printer.print_json({"id": job.id, "folder": str(draft.paths.root), "log": job.log})


def _to_the_end(paths: JobPaths, job: Job, values: dict[str, Any]) -> int:
    # What only a launch that waits needs: a dry run starts faster without it.
    from ..runs import follow, job_end

    shown: Collection[int] | None = ()
    as_json, quiet = values["as_json"], values["parsable"]
    if values["wait"] or as_json or quiet:
        status = follow.waited(paths, job)
        if status and not (as_json or quiet):
            job_end.tell_success(job, status)
    else:
        shown = values["ranks"]
        status = follow.to_the_end(paths, job, values["ranks"], values["stall_after"])
    if status is None:
        return follow.INTERRUPTED
    return job_end.finish(paths, job, status, shown, as_json=as_json, quiet=quiet)
