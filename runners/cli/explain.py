"""`runner explain`, and how an explanation is shown wherever a job's failure is told."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from ..core.job_record import Job, JobPaths, JobState
from ..explain import Certainty, Explanation, explain
from ..jobs import find, job_status
from ..settings import config
from . import printer, suggest

WIDTH = len("first to fail: ")
FOR_PROGRAMS = ("--parsable", "--json")  # a person is to type the command
HELP = {"help_option_names": ["-h", "--help"]}


@click.command("explain", context_settings=HELP, epilog="Example: runner explain 42")
@click.argument("job", required=False)
@click.option("--runs-dir", metavar="DIR", help="folder for the runs (default: ./runs)")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def explain_command(job: str | None, runs_dir: str | None, as_json: bool) -> None:
    """Say why JOB failed: cause, evidence, the command that mends it, and how sure that is.

    Of an array, why its runs failed, those with the same cause together.
    """
    folder = Path(config.load({"runs-dir": runs_dir}, os.environ).get("runs-dir")).absolute()
    meant = find.find_all(job, folder)
    if len(meant) > 1:
        from . import array_causes

        array_causes.of_several(meant, as_json)
        return
    paths, found = meant[0]
    status = job_status.status(paths, found)
    said = explain(paths, found, status)
    if status.state == JobState.RUNNING and not said.failed:
        said = _so_far(paths, found) or said
    if as_json:
        printer.print_json(facts(said, found))
        return
    click.echo(f"job {found.id}: {printer.describe(status, found.restarts)}, in {paths.root}")
    for line in lines(said, found):
        click.echo(line)


def _so_far(paths: JobPaths, job: Job) -> Explanation | None:
    """Return what is wrong with a job that runs: it may have stopped making steps."""
    from ..jobs import stalls
    from . import stall_notice

    stalled = stall_notice.of_job(paths, job)
    if stalled is None:
        return None
    because = "its nodes were asked just now what each rank does"
    fix = f"runner logs --all {job.id}"
    return Explanation("stall", stalls.in_words(stalled), (), fix, Certainty.LIKELY, because)


def facts(said: Explanation, job: Job) -> dict[str, Any]:
    """Return an explanation for programs; `fix` is the whole command."""
    return {
        "id": job.id,
        "name": said.name,
        "cause": said.cause,
        "rank": said.rank,
        "host": said.host,
        "evidence": list(said.evidence),
        "fix": command(said.fix, job),
        "certainty": said.certainty.value,
        "because": said.because,
    }


def lines(said: Explanation, job: Job) -> list[str]:
    """Return an explanation for people, one fact a line under its word."""
    if not said.failed:
        return [f"  {line}" for line in (said.cause, *said.evidence)]
    who = f"rank {said.rank}@{said.host}" if said.rank is not None else said.host
    facts = [("cause", [said.cause]), ("first to fail", [who] if who else [])]
    facts += [("evidence", list(said.evidence)), ("fix", [command(said.fix, job)])]
    facts += [("certainty", [f"{said.certainty.value}: {said.because}"])]
    return [
        f"  {word + ':' if at == 0 else '':<{WIDTH}}{text}"
        for word, texts in facts
        for at, text in enumerate(texts)
        if text
    ]


def command(fix: str, job: Job) -> str:
    """Return what to type: the fix's commands; a launch in the folder where it was typed."""
    words = [word for word in job.words if word not in FOR_PROGRAMS]
    parts = [suggest.with_options(part, words) for part in fix.split(" && ") if part]
    launches = any(part.startswith("runner launch") for part in parts)
    if launches and job.cwd not in ("", os.getcwd()):
        parts.insert(0, f"cd {shlex.quote(job.cwd)}")
    return " && ".join(parts)
