"""`runner doctor`: prints what it finds of this machine, of an image and of a short job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ...core.command_line import CommandLine
from ...core.errors import RunnerError, UsageError
from ...core.job_record import Job, JobPaths
from ...core.text import count
from ...doctor import trial
from ...doctor.examine import examine, refused
from ...doctor.finding import FAILURE, OK, WARNING, Finding, counts, failed, grouped
from ...launching import suggest
from .. import exit_codes, invocation, options, printer
from ..invocation import SettingsCommand

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

EXAMPLE = """\b
Examples:
  runner doctor
  runner doctor --image horovod_cpu.sif --json
  runner doctor --image horovod_cpu.sif --job --nodes 2 --ntasks-per-node 2
"""
SECONDS_TO_WAIT = 600
COLOURS = {OK: "green", WARNING: "yellow", FAILURE: "bold red"}
WIDTH = max(map(len, COLOURS)) + 2


@click.command("doctor", cls=SettingsCommand, epilog=EXAMPLE)
@options.setting_options
@click.option("--job", is_flag=True, help="also run a short job with the image")
@click.option("--run", "run", metavar="RUN", help="report on the short job of an earlier call")
@click.option(
    "--max-wait",
    type=click.IntRange(min=0),
    default=SECONDS_TO_WAIT,
    show_default=True,
    metavar="SECONDS",
    help="how long to wait for the job",
)
@click.option("-v", "--verbose", is_flag=True, help="show the evidence of what is ok too")
@options.as_json
def doctor_command(
    job: bool, run: str | None, max_wait: int, verbose: bool, as_json: bool, **values: Any
) -> None:
    """Check this machine, an image and a short job; report problems and how to fix them.

    Each finding is ok (one line), a warning or a failure (with evidence and fix). The exit code is
    80 if a check failed. The launch options select the image and the resources of the job.
    """
    if run is not None and job:
        raise UsageError(
            "--run comes back to an earlier job, --job starts another",
            remedy="runner doctor --run RUN",
        )
    if run:
        found = _job_findings(*options.find(run, values["runs_dir"]), max_wait)
    else:
        found = _examined(options.flags(values), max_wait if job else None)
    here = invocation.command_line()
    if as_json:
        findings = [
            {**vars(one), "fix": [suggest.as_json(each, here) for each in one.fix]} for one in found
        ]
        printer.print_json({"failed": failed(found), "counts": counts(found), "findings": findings})
    else:
        show(found, here, verbose)
    sys.exit(exit_codes.REFUSED if failed(found) else 0)


def _examined(flags: dict[str, Any], max_wait: int | None) -> list[Finding]:
    """Return every finding; `max_wait` is None without a job."""
    findings, plan = examine(flags, max_wait is not None, printer.Console())
    if max_wait is None or plan is None or plan.refusals:
        return findings
    try:
        paths, submitted = trial.submit(plan, invocation.again())
    except RunnerError as error:
        return [*findings, refused(error)]
    click.echo(f"job {submitted.id} submitted, in {paths.root}", err=True)
    return [*findings, *_job_findings(paths, submitted, max_wait)]


def _job_findings(paths: JobPaths, submitted: Job, max_wait: int) -> list[Finding]:
    """Wait for the job; a Ctrl-C leaves it running."""
    try:
        return trial.check(trial.wait(paths, submitted, max_wait, printer.Console()))
    except KeyboardInterrupt:
        come_back = f"come back: runner doctor --run {paths.root}"
        click.echo(f"\nrunner: left job {submitted.id} running; {come_back}", err=True)
        sys.exit(130)


def show(findings: list[Finding], here: CommandLine, verbose: bool = True) -> None:
    """Print the findings and how many there are of each kind; `here` asked for them.

    Of those that are ok the evidence is left out, unless `verbose`.
    """
    # rich costs 60 ms; it knows terminals, their colours and NO_COLOR.
    from rich.console import Console as RichConsole

    console = RichConsole(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for subject, group in grouped(findings):
        console.print(subject, style="bold")
        for finding in group:
            _one(console, finding, here, verbose or finding.state != OK)
    totals = counts(findings).items()
    console.print(", ".join(f"{n} {OK}" if state == OK else count(n, state) for state, n in totals))


def _one(console: RichConsole, finding: Finding, here: CommandLine, evidence: bool) -> None:
    console.print(f"  {finding.state:<{WIDTH}}", style=COLOURS[finding.state], end="")
    console.print(f"{finding.name}: {finding.says}")
    for line in finding.evidence.splitlines() if evidence else ():
        console.print(f"  {'':<{WIDTH}}{line}", style="dim")
    for remedy in finding.fix:
        console.print(f"  {'':<{WIDTH}}try: {suggest.text(remedy, here)}")
