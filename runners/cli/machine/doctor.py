"""`runner doctor`: prints what it finds of this machine, of an image and of a short job."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...core import diagnosis
from ...core.command_line import CommandLine
from ...core.errors import Refused, UsageError
from ...core.text import count
from ...doctor.examine import examine, of_trial
from ...doctor.finding import FAILURE, OK, WARNING, Finding, counts, document, failed, grouped
from ...settings import suggest
from .. import invocation, options, printer
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
WIDTH = len("  failure  ")


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
            id="run-and-job",
        )
    listener = printer.Console()
    if run:
        found = of_trial(*options.find(run, values["runs_dir"]), max_wait, listener)
    else:
        seconds = max_wait if job else None
        found = examine(options.flags(values), seconds, invocation.again(), listener)
    here = invocation.command_line()
    if as_json:
        printer.print_json(document(found, here))
    else:
        show(found, here, verbose)
    sys.exit(Refused.exit_code if failed(found) else 0)


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
            _one(console, finding, here, verbose or finding.severity != OK)
    totals = counts(findings).items()
    console.print(", ".join(f"{n} {OK}" if state == OK else count(n, state) for state, n in totals))


def _one(console: RichConsole, finding: Finding, here: CommandLine, evidence: bool) -> None:
    shown = finding if evidence else replace(finding, evidence="")
    typed = partial(suggest.text, typed=here)
    said = diagnosis.lines(shown, typed, f"{finding.name}: ", indent=" " * WIDTH)
    console.print(f"  {finding.severity}".ljust(WIDTH), style=COLOURS[finding.severity], end="")
    for number, line in enumerate(said):
        console.print(line, style="dim" if 0 < number <= len(shown.evidence_lines) else None)
