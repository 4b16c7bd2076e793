"""The doctor's findings: of this machine, an image and a short job, and how people see them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.command_line import CommandLine
from ..core.errors import RunnerError, UsageError
from ..core.job_record import Job, JobPaths, Status
from ..core.plan import Plan
from ..core.site import Site
from ..doctor import job, machine, question
from ..doctor.checks import image as image_check
from ..doctor.checks import job as job_check
from ..doctor.finding import FAILURE, OK, WARNING, Finding, counts, grouped
from ..planning import execution
from ..settings import config
from . import make_plan, printer, run_arguments, suggest, typed

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {OK: "green", WARNING: "yellow", FAILURE: "bold red"}
WIDTH = max(map(len, COLOURS)) + 2


def everything(flags: dict[str, Any], max_wait: int | None) -> list[Finding]:
    """Return every finding; `max_wait` is None without a job."""
    here = make_plan.look_around(flags, job.preset(), anew=True)
    make_plan.only_here(here)
    settings = config.load(flags, os.environ, job.preset(), here.profile)
    name = settings.get("image")
    if max_wait is not None and not name:
        raise UsageError("a job needs an image", remedy="--image horovod_cpu.sif")
    made, about = _plan(flags, here, max_wait is None) if name else (None, [])
    runs_dir = Path(settings.get("runs-dir")).absolute()
    image = made.spec.image.path if made and _is_on_disk(made, *execution.CONTAINERS) else None
    found = question.examine(machine.subjects(here, runs_dir, image)) + about
    return found if made is None or max_wait is None else found + _job(made, max_wait)


def of_earlier(word: str, runs_dir: str | None, max_wait: int) -> list[Finding]:
    return _outcome(*run_arguments.find(word, runs_dir), max_wait)


def _plan(flags: dict[str, Any], here: Site, dry_run: bool) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the job, None when there can be none, and what there is to say."""
    try:
        made = make_plan.plan_for(job.trainer(), job.preset(), flags, here, dry_run)
        return made, [*_inspected(made, here), *image_check.plan(made)]
    except RunnerError as error:
        return None, [image_check.refused(error)]


def _is_on_disk(made: Plan, *runtimes: str) -> bool:
    """Whether the image is a file, or a folder, on this machine, for one of these runtimes."""
    return made.launching.runtime in runtimes and made.spec.image.path.exists()


def _inspected(made: Plan, here: Site) -> list[Finding]:
    from ..images import inspect

    if not _is_on_disk(made, *execution.CONTAINERS, "none"):
        return []
    facts = inspect.inspect(made.spec.image.path)
    return [*image_check.facts(facts), *image_check.fits(facts, here)]


def _job(made: Plan, max_wait: int) -> list[Finding]:
    if made.refusals:
        return []
    try:
        paths, submitted = job.submit(made, typed.again())
    except RunnerError as error:
        return [image_check.refused(error)]
    click.echo(f"job {submitted.id} submitted, in {paths.root}", err=True)
    return _outcome(paths, submitted, max_wait)


def _outcome(paths: JobPaths, submitted: Job, max_wait: int) -> list[Finding]:
    """Wait for the job; a Ctrl-C leaves it running."""

    def tell(status: Status) -> None:
        printer.tell(f"job {submitted.id}: {printer.describe(status)}")

    try:
        return job_check.check(job.wait(paths, submitted, max_wait, tell))
    except KeyboardInterrupt:
        come_back = f"come back: runner doctor --run {paths.root}"
        click.echo(f"\nrunner: left job {submitted.id} running; {come_back}", err=True)
        sys.exit(130)


def show(findings: list[Finding], here: CommandLine) -> None:
    """Print the findings and how many there are of each kind; `here` asked for them."""
    # rich costs 60 ms; it knows terminals, their colours and NO_COLOR.
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for subject, group in grouped(findings):
        console.print(subject, style="bold")
        for finding in group:
            _one(console, finding, here)
    console.print(", ".join(_counted(*pair) for pair in counts(findings).items()))


def _counted(state: str, count: int) -> str:
    return f"{count} {state}{'' if state == OK or count == 1 else 's'}"


def _one(console: Console, finding: Finding, here: CommandLine) -> None:
    console.print(f"  {finding.state:<{WIDTH}}", style=COLOURS[finding.state], end="")
    console.print(f"{finding.name}: {finding.says}")
    for line in finding.evidence.splitlines():
        console.print(f"  {'':<{WIDTH}}{line}", style="dim")
    for remedy in finding.remedies:
        console.print(f"  {'':<{WIDTH}}try: {suggest.text(remedy, here)}")
