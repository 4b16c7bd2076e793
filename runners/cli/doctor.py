"""`runner doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import RunnerError, UsageError
from ..settings import config
from . import common_options, exit_codes, options, printer, suggest, typed

if TYPE_CHECKING:
    from ..core.job_record import Job, JobPaths, Status
    from ..core.model import Plan
    from ..core.site import Site
    from ..doctor.finding import Finding
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
@click.option("--run", "run", metavar="RUN", help="come back to the short job of an earlier call")
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
    """Look at this machine, an image and a short job; say what is wrong and what to type.

    Each finding is ok, a warning or a failure. The exit code is 80 when something failed. The
    options of a launch say which image, and what the job asks for.
    """
    from ..doctor.finding import failed

    if run is not None and job:
        raise UsageError(
            "--run comes back to an earlier job, --job starts another",
            remedy="runner doctor --run RUN",
        )
    flags = options.flags(values)
    found = _earlier(run, flags, max_wait) if run else _all(flags, max_wait if job else None)
    _print(found, as_json)
    sys.exit(exit_codes.REFUSED if failed(found) else 0)


def _all(flags: dict[str, Any], max_wait: int | None) -> list[Finding]:
    """Return every finding; `max_wait` is None without a job."""
    from ..doctor import job, machine, question
    from . import make_plan

    here = make_plan.look_around(flags, job.preset())
    make_plan.only_here(here)
    settings = config.load(flags, os.environ, job.preset(), here.profile)
    name = settings.get("image")
    if max_wait is not None and not name:
        raise UsageError("a job needs an image", remedy="--image horovod_cpu.sif")
    made, about = _plan(flags, here, max_wait is None) if name else (None, [])
    runs_dir = Path(settings.get("runs-dir")).absolute()
    image = _file(made) if made else None
    found = question.examine(machine.subjects(here, runs_dir, image)) + about
    return found if made is None or max_wait is None else found + _job(made, max_wait)


def _plan(flags: dict[str, Any], here: Site, dry_run: bool) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the job, None when there can be none, and what there is to say."""
    from ..doctor import job
    from ..doctor.checks import image as check
    from . import make_plan

    try:
        made = make_plan.plan_for(job.trainer(), job.preset(), flags, here, dry_run)
        return made, [*_inspected(made, here), *check.plan(made)]
    except RunnerError as error:
        return None, [check.refused(error)]


def _file(made: Plan) -> Path | None:
    """Return the image where it is a file, or a sandbox folder, on this machine."""
    from ..plan import execution

    image = made.spec.image
    return image if made.runtime in execution.CONTAINERS and image.exists() else None


def _inspected(made: Plan, here: Site) -> list[Finding]:
    from ..doctor.checks import image as check
    from ..images import inspect
    from ..plan import execution

    image = made.spec.image
    if made.runtime not in (*execution.CONTAINERS, "none") or not image.exists():
        return []
    facts = inspect.inspect(image)
    return [*check.facts(facts), *check.fits(facts, here)]


def _job(made: Plan, max_wait: int) -> list[Finding]:
    from ..doctor import job
    from ..doctor.checks import image as check

    if made.refusals:
        return []
    try:
        paths, submitted = job.submit(made, typed.again())
    except RunnerError as error:
        return [check.refused(error)]
    click.echo(f"job {submitted.id} submitted, in {paths.root}", err=True)
    return _outcome(paths, submitted, max_wait)


def _earlier(word: str, flags: dict[str, Any], max_wait: int) -> list[Finding]:
    from ..jobs import find

    runs_dir = Path(config.load(flags, os.environ).get("runs-dir")).absolute()
    return _outcome(*find.find(word, runs_dir), max_wait)


def _outcome(paths: JobPaths, submitted: Job, max_wait: int) -> list[Finding]:
    """Wait for the job; a Ctrl-C leaves it running."""
    from ..doctor import job
    from ..doctor.checks import job as check

    def tell(status: Status) -> None:
        click.echo(f"runner: job {submitted.id}: {printer.describe(status)}", err=True)

    try:
        return check.check(job.wait(paths, submitted, max_wait, tell))
    except KeyboardInterrupt:
        come_back = f"come back: runner doctor --run {paths.root}"
        click.echo(f"\nrunner: left job {submitted.id} running; {come_back}", err=True)
        sys.exit(130)


def _print(found: list[Finding], as_json: bool) -> None:
    from ..doctor.finding import counts, failed

    if as_json:
        here = typed.command_line()
        findings = [
            {**vars(one), "fix": [suggest.as_json(each, here) for each in one.remedies]}
            for one in found
        ]
        printer.print_json({"failed": failed(found), "counts": counts(found), "findings": findings})
    else:
        from . import findings_view

        findings_view.show(found, typed.command_line())
