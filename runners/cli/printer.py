"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

import click

from ..core import files, job_record
from ..core.job_record import Job, JobPaths, JobState
from ..jobs.job_status import Status
from ..schedulers.pending_reasons import in_words


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: list[list[Any]], headers: list[str]) -> None:
    """Print rows under headers, without lines, so that awk and eyes both read them."""
    # tabulate costs 15 ms, which `--help` and `--dry-run` need not pay.
    from tabulate import tabulate

    click.echo(tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True))


def result_table(result: dict[str, Any]) -> None:
    """Print a trainer's result, one fact a line, nested ones with a dot."""
    table([[name, text] for name, text in _flat(result)], headers=[])


def _flat(value: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, text(item)))
    return rows


def text(item: Any) -> str:
    """Return a value of a result as it is read: four digits, lists without brackets, - for none."""
    if isinstance(item, float):
        return f"{item:.4g}" if abs(item) < 1000 else f"{item:.1f}"
    if isinstance(item, list):
        return ", ".join(text(part) for part in item) or "-"
    return "-" if item is None else str(item)


def describe(status: Status, limit: int = 0) -> str:
    """Return a status in words; `limit` is how often the job may come back."""
    restart = f"restart {status.restart}" if status.restart else ""
    if restart and limit:
        restart += f" of {limit}"
    more = ", ".join(text for text in (in_words(status.reason), restart) if text)
    return status.state.value + (f" ({more})" if more else "")


def ending(paths: JobPaths, job: Job, status: Status) -> int:
    """Print how a job ended, to stderr, and its result; return the exit code for it."""
    from ..explain import explain
    from . import resume_hint
    from .explain import lines

    code = exit_code(paths, job, status)
    if status.state == JobState.STOPPED:
        for line in resume_hint.told(paths, job, status):
            click.echo(line, err=True)
    elif code:
        click.echo(f"runner: job {job.id} ended: {describe(status)}, exit code {code}", err=True)
        for line in lines(explain(paths, job, status), job):
            click.echo(line, err=True)
        click.echo(f"  log: {job.log} (all ranks: runner logs --all {job.id})", err=True)
    return code


def exit_code(paths: JobPaths, job: Job, status: Status) -> int:
    """Return the exit code for a job that has ended; a rank that was lost has one too."""
    from . import exit_codes

    failure = job_record.first_failure(paths)
    code = exit_codes.of_job(status, failure)
    if status.state == JobState.FAILED and (failure is None or job_record.is_follower(failure)):
        from ..explain import first_code

        return first_code(paths, job) or code
    return code


def finish(
    paths: JobPaths, job: Job, status: Status, as_json: bool = False, quiet: bool = False
) -> int:
    """Print the ending and the result of a job that was waited for; return the exit code."""
    code = ending(paths, job, status)
    result = files.read_json(paths.result)
    if as_json:
        from ..explain import explain
        from .explain import facts as of

        facts = {"id": job.id, "folder": str(paths.root), "state": status.state.name}
        why = of(explain(paths, job, status), job) if code else None
        print_json({**facts, "exit_code": code, "explanation": why, "result": result})
    elif result is not None and not quiet:
        # What was asked for is known to who is looking; `runner result` shows that too.
        result_table({name: item for name, item in result.items() if name != "arguments"})
    return code
