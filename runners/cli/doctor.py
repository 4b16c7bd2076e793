"""`runner doctor`."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..core.errors import UsageError
from . import common_options, exit_codes, options, printer, suggest, typed
from .typed import SettingsCommand

EXAMPLE = """\b
Examples:
  runner doctor
  runner doctor --image horovod_cpu.sif --json
  runner doctor --image horovod_cpu.sif --job --nodes 2 --ntasks-per-node 2
"""
SECONDS_TO_WAIT = 600


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
@common_options.as_json
def doctor_command(job: bool, run: str | None, max_wait: int, as_json: bool, **values: Any) -> None:
    """Check this machine, an image and a short job; report problems and how to fix them.

    Each finding is ok, a warning or a failure. The exit code is 80 if a check failed. The launch
    options select the image and the resources of the job.
    """
    from ..doctor.finding import counts, failed
    from . import doctor_findings

    if run is not None and job:
        raise UsageError(
            "--run comes back to an earlier job, --job starts another",
            remedy="runner doctor --run RUN",
        )
    if run:
        found = doctor_findings.of_earlier(run, values["runs_dir"], max_wait)
    else:
        found = doctor_findings.everything(options.flags(values), max_wait if job else None)
    here = typed.command_line()
    if as_json:
        findings = [
            {**vars(one), "fix": [suggest.as_json(each, here) for each in one.remedies]}
            for one in found
        ]
        printer.print_json({"failed": failed(found), "counts": counts(found), "findings": findings})
    else:
        doctor_findings.show(found, here)
    sys.exit(exit_codes.REFUSED if failed(found) else 0)
