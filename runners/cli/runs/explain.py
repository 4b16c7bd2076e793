"""`runner explain`: diagnoses a failed job, an array's failed runs grouped by cause, or a log."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ...core import diagnosis
from ...core.errors import NotFound
from ...core.text import first_few
from ...jobs import job_status
from ...jobs.find_run import Runs
from ...monitoring import end, run_group, wording
from .. import options, printer
from . import job_end

LISTED = 10
PASTED = "-"
OF_TEXT = "a log alone; the job's command, nodes and records are not known"


@click.command("explain", epilog="Example: runner explain 42; runner explain slurm-42.out")
@click.argument("job", required=False, metavar="[JOB|FILE|-]")
@options.runs_dir
@options.as_json
def explain_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Diagnose a failed JOB: cause, evidence, the command that fixes it, and the confidence.

    For a job array, its failed runs are grouped by cause. FILE is a log of any job, also of one
    that runner did not launch; - reads a text from standard input.
    """
    if job == PASTED:
        with _pasted() as file:
            _explain_text(file, "standard input", as_json)
        return
    try:
        meant = options.find_all(job, runs_dir)
    except NotFound as error:
        if not job or not Path(job).is_file():
            if job and not error.evidence:
                error.change(evidence=f"{job} is no file either")
            raise
        _explain_text(Path(job), job, as_json)
        return
    _explain_runs(meant, as_json)


def _explain_runs(meant: Runs, as_json: bool) -> None:
    if len(meant) > 1:
        _explain_array(meant, as_json)
        return
    paths, job_record = meant[0]
    status = job_status.status(paths, job_record)
    explanation = end.explain(paths, job_record, status, printer.Console())
    if as_json:
        printer.print_json(diagnosis.document([end.explanation_facts(explanation, job_record)]))
        return
    state = wording.describe(status, job_record.requeue_limit)
    click.echo(f"job {job_record.id}: {state}, in {paths.root}")
    click.echo("\n".join(job_end.explanation_lines(explanation, job_record)))


@contextmanager
def _pasted() -> Iterator[Path]:
    """Yield a file with what comes on standard input."""
    if sys.stdin.isatty():
        printer.tell("paste the text, then end it by Ctrl-D on a line of its own")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text")
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield file


def _explain_text(file: Path, name: str, as_json: bool) -> None:
    """Print what a log alone tells."""
    explanation = end.explain_text(file, name)
    if as_json:
        printer.print_json(diagnosis.document([end.explanation_facts(explanation)]))
        return
    click.echo(f"{name}: {OF_TEXT}")
    click.echo("\n".join(job_end.explanation_lines(explanation)))


def _explain_array(runs: Runs, as_json: bool) -> None:
    """Print why those runs failed that did."""
    explained = run_group.explained(runs)
    if as_json:
        facts = [end.explanation_facts(why, job) for job, why in explained]
        printer.print_json(diagnosis.document(facts))
        return
    click.echo(f"{runs[0][1].array}: {len(explained)} of {len(runs)} runs did not end well")
    for group in run_group.by_cause(explained):
        job, why = group[0]
        who = first_few([job.id for job, _ in group], LISTED)
        click.echo(who + ("; of the first:" if group[1:] else ":"))
        click.echo("\n".join(job_end.explanation_lines(why, job)))
