"""`runner launch`: plans jobs, submits them, and waits for them or follows one if asked."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ...core import command_signals, plan_record
from ...core.job_record import Job, JobPaths
from ...core.plan import Plan
from ...core.text import first_few
from ...jobs import find_run
from ...jobs.find_run import Runs
from ...launching import job_array, submit
from ...launching.run_folder import Draft
from ...launching.submit import LaunchRequest
from ...settings import sweep
from ...settings.sweep import SweepRequest
from .. import invocation, options, printer
from ..invocation import TrainerCommand
from . import plan_summary

EXAMPLE = """\b
Examples:
  runner launch --image horovod_cpu.sif --nodes 2
  runner launch --image horovod_cpu.sif --nodes 2 torch_mnist -- --epochs 5
  runner launch --image horovod_cpu.sif -N 2 --controller gloo --follow tf_mnist
  runner launch --image my.sif --gpus-per-node 4 -t 2:00:00 train.py -- --lr 0.1
"""
LISTED = 10  # runs of many


@dataclass(frozen=True)
class LaunchOutput:
    """The form of what a launch prints, and whether it waits for the job's end.

    While it waits it is `silent`, or shows the log of `ranks` (None: of all) and says which of them
    lag after `stall_after` seconds without a step (None: as configured).
    """

    as_json: bool
    parsable: bool
    verbose: bool
    waits: bool
    silent: bool
    ranks: Collection[int] | None
    stall_after: int | None


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
    plan_summary.warn_of_secrets()
    request = LaunchRequest(trainer or "", args, flags, typed, runs, dry_run, force)
    with command_signals.saying("nothing was submitted"):
        made = submit.accepted(request, printer.Console())
        plan_summary.warn(made)
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
    _launch(made, runs, output, dry_run)


def _launch(made: Plan, runs: SweepRequest | None, output: LaunchOutput, dry_run: bool) -> None:
    """Submit one job or `runs`, or print what would be submitted; wait if so asked."""
    typed = invocation.again()
    if dry_run:
        drafts = submit.drafts_of(made, typed, runs)
        if runs:
            _print_all(drafts, runs.at_once, output.as_json)
        else:
            _print(drafts[0], output.as_json)
        return
    with command_signals.held():
        submitted = [(d.paths, job) for d, job in submit.submitted(made, typed, runs)]
        (_announce_all if runs else _announce)(made, submitted, output)
    if not output.waits:
        return
    if runs:
        from ..runs import several_runs  # here and below, for many runs only

        sys.exit(several_runs.wait(submitted, output.as_json, output.parsable))
    sys.exit(_to_the_end(*submitted[0], output))


def _print(draft: Draft, as_json: bool) -> None:
    """Print what would be submitted."""
    if as_json:
        facts = {"folder": str(draft.paths.root), "script": draft.text}
        printer.print_json({**facts, "plan": plan_record.as_data(draft.plan)})
    else:
        click.echo(draft.text, nl=False)


def _announce(made: Plan, runs: Runs, output: LaunchOutput) -> None:
    """Say what was submitted as one job."""
    ((paths, job),) = runs
    if output.parsable:
        click.echo(job.id)
    elif not output.as_json:
        plan_summary.show(made, output.verbose)
        click.echo(f"job {job.id} submitted, in {paths.root}", err=True)
        if not output.waits:
            click.echo(f"next: runner logs --follow {job.id}", err=True)
    elif not output.waits:
        printer.print_json({"id": job.id, "folder": str(paths.root), "log": job.log})


def _to_the_end(paths: JobPaths, job: Job, output: LaunchOutput) -> int:
    """Wait for a job's end, or follow it; print how it ended and return the exit code."""
    # What only a launch that waits needs: a dry run starts faster without it.
    from ...monitoring import end
    from ..runs import follow, job_end

    as_json, quiet = output.as_json, output.parsable
    shown = () if output.silent else output.ranks
    if output.silent:
        status = follow.waited(paths, job)
    else:
        status = follow.to_the_end(paths, job, shown, output.stall_after)
    ended = end.of_job(paths, job, status, explain_all=as_json)
    if output.silent and not (as_json or quiet):
        job_end.tell_success(ended)
    job_end.finish(ended, shown, as_json, quiet)
    return ended.exit_code


def _print_all(drafts: Sequence[Draft], at_once: int | None, as_json: bool) -> None:
    """Print what would be submitted, and the script of the first run; the others have their own."""
    from ..runs import runs_table

    batches = job_array.batches(drafts, at_once)
    if as_json:
        listed = [{"folder": str(d.paths.root), "script": d.text} for d in drafts]
        scripts = [batch.text for batch in batches if batch.array]
        chosen = plan_record.as_data(drafts[0].plan)
        printer.print_json({"submitted": scripts, "runs": listed, "plan": chosen})
        return
    for batch in batches:
        if batch.array:
            click.echo(f"# ==> {batch.array.script} <==\n{batch.text}")
    click.echo(f"# ==> {drafts[0].paths.script} <==\n{drafts[0].text}")
    for draft in drafts[1:]:
        varied = runs_table.varied(draft.varied) or f"{sweep.TASK}={draft.task}"
        click.echo(f"# ==> {draft.paths.script}: the same with {varied} <==")


def _announce_all(made: Plan, runs: Runs, output: LaunchOutput) -> None:
    """Say what was submitted: the arrays, and the first runs."""
    from ..runs import runs_table

    wholes = list(dict.fromkeys(find_run.whole_id(job) for _, job in runs))
    name = runs[0][1].array or runs[0][0].root.name
    if output.parsable:
        click.echo("\n".join(wholes))
    elif output.as_json:
        listed = [find_run.facts(*run) for run in runs]
        if not output.waits:
            printer.print_json({"name": name, "ids": wholes, "runs": listed})
    else:
        plan_summary.show(made, output.verbose)
        click.echo(f"job {', '.join(wholes)} submitted: {len(runs)} runs, {name}", err=True)
        lines = [
            f"{job.id}  {paths.root}  {runs_table.varied(job.varied)}".rstrip()
            for paths, job in runs
        ]
        click.echo("  " + first_few(lines, LISTED, "\n  "), err=True)
        if not output.waits:
            click.echo(f"next: runner status {name}", err=True)
