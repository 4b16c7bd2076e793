"""How a job ended: its explanation and its result are printed, and its exit code is chosen."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import click

from ...core import job_record
from ...core.job_record import Job, JobPaths, JobState, Status
from ...core.remedy import ADVICE
from ...explain import read_facts
from ...explain.explanation import ADMINISTRATOR, AUTHOR, NOBODY, YOU, Explanation
from ...injob.run_files import harmless
from ...jobs import wording
from ...launching import end, suggest
from .. import exit_codes, printer

WIDTH = len("first to fail: ")
FIXED_BY = {
    YOU: "you",
    AUTHOR: "the author of the trainer",
    ADMINISTRATOR: "the administrators of the cluster",
    NOBODY: "nobody: the node is at fault",
}


def ending(paths: JobPaths, job: Job, status: Status, shown: Collection[int] | None = ()) -> int:
    """Print how a job ended, to stderr; return the exit code for it.

    `shown` are the ranks (None: all) whose tracebacks are on the screen already.
    """
    code = exit_code(paths, job, status)
    if status.state == JobState.CANCELLED and status.reason in ("", f"by {os.getuid()}"):
        lines = [f"runner: job {job.id} was cancelled, exit code {code}", *_go_on(paths, job)]
    elif status.state == JobState.STOPPED:
        lines = stopped(paths, job, status)
    elif code:
        why = end.explain(paths, job, status)
        if shown is None or why.rank in shown or (why.rank is None and shown):
            why = replace(why, traceback=())
        lines = [
            f"runner: job {job.id} ended: {wording.describe(status)}, exit code {code}",
            *explanation_lines(why, job),
            f"  log: {job.log} (all ranks: runner logs --all {job.id})",
        ]
    else:
        lines = []
    for line in lines:
        click.echo(line, err=True)
    return code


def stopped(paths: JobPaths, job: Job, status: Status) -> list[str]:
    why = f" ({status.reason})" if status.reason else ""
    step = job_record.saved_step(paths)
    saved = f"checkpoint at step {step} saved" if step is not None else "no checkpoint of ours"
    line = f"runner: job {job.id} stopped early{why}: {saved}, exit code {status.exit_code}"
    return [line, *_go_on(paths, job), f"  log: {job.log}"]


def _go_on(paths: JobPaths, job: Job) -> list[str]:
    command = end.resume_command(paths, job)
    return [f"  go on: {command}"] if command else []


def tell_success(job: Job, status: Status) -> None:
    """Say that a job that was waited for ended well, and after how long."""
    if status.state == JobState.COMPLETED:
        after = f" after {wording.span(status.elapsed)}" if status.elapsed else ""
        printer.tell(f"job {job.id}: {wording.describe(status)}{after}")


def exit_code(paths: JobPaths, job: Job, status: Status) -> int:
    """Return the exit code for a job that has ended: of a failed one its first rank's."""
    failed = status.state == JobState.FAILED
    return exit_codes.of_job(status, read_facts.exit_code(paths, job) if failed else None)


def finish(
    paths: JobPaths,
    job: Job,
    status: Status,
    shown: Collection[int] | None = (),
    as_json: bool = False,
    quiet: bool = False,
) -> int:
    """Print the ending and the result of a job that was waited for; return the exit code."""
    code = ending(paths, job, status, shown)
    result, odd = job_record.result(paths)
    if odd:
        printer.tell(odd)
    if as_json:
        value = {"id": job.id, "folder": str(paths.root), "state": status.state.name}
        why = end.explanation_facts(end.explain(paths, job, status), job) if code else None
        printer.print_json({**value, "exit_code": code, "explanation": why, "result": result})
    elif result is not None and not quiet:
        # What was asked for is known to who is looking; `runner result` shows that too.
        facts = {name: item for name, item in result.items() if name != "arguments"}
        printer.result_table(without_use(facts))
    elif not odd and status.state == JobState.COMPLETED and not quiet:
        printer.tell(end.NO_RESULT)
    for line in end.traces(paths) if not as_json and not quiet else ():
        printer.tell(line)
    return code


def without_use(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what the job used, which the log and `runner status` show."""
    return {name: item for name, item in result.items() if name != "use"}


def explanation_lines(explanation: Explanation, job: Job) -> list[str]:
    """Return an explanation for people, one fact a line under its word."""
    if not explanation.failed:
        lines = (explanation.cause, *explanation.evidence)
        return [f"  {harmless(line)}" for line in lines]
    of_all = explanation.who and explanation.rank is None and not explanation.host
    facts = [
        ("cause", [explanation.cause]),
        ("failed" if of_all else "first to fail", [explanation.who]),
        ("traceback", explanation.traceback),
        ("evidence", explanation.evidence),
        ("fix", _fix(explanation, job)),
        *(("or", [f"{does}:", suggest.text(fix, job.typed)]) for does, fix in explanation.others),
        ("fixed by", [FIXED_BY.get(explanation.fixed_by, "")]),
        ("tell", [explanation.tell]),
        ("certainty", [f"{explanation.certainty.value}: {explanation.because}"]),
    ]
    return [
        f"  {word + ':' if at == 0 else '':<{WIDTH}}{harmless(text)}"
        for word, texts in facts
        for at, text in enumerate(texts)
        if text
    ]


def _fix(explanation: Explanation, job: Job) -> list[str]:
    """Return what to do in words, and the command that does it, as far as there is one."""
    fix = explanation.fix
    command = suggest.text(fix, job.typed) if fix else ""
    steps = list(explanation.steps)
    return steps if fix and fix.kind == ADVICE and steps else [*steps, command]
