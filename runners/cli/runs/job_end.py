"""How a job ended, for who waited for it: its explanation, its result and where its files are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import click

from ...contract.log_text import harmless
from ...core import diagnosis
from ...core.command_line import CommandLine
from ...core.job_record import Job, JobState
from ...core.remedy import ADVICE
from ...core.text import span
from ...explain.explanation import ADMINISTRATOR, AUTHOR, NOBODY, YOU, Explanation
from ...monitoring import end, result_facts, wording
from ...monitoring.end import JobEnd
from ...settings import suggest
from .. import printer

WIDTH = len("  first to fail: ")
FIXED_BY = {
    YOU: "you",
    AUTHOR: "the author of the trainer",
    ADMINISTRATOR: "the administrators of the cluster",
    NOBODY: "nobody: the node is at fault",
}


def show(ended: JobEnd, shown: Collection[int] | None = ()) -> None:
    """Print how a job ended, to stderr.

    Tracebacks of the ranks in `shown` (None: all) were printed before.
    """
    go_on = [f"  go on: {ended.resume}"] if ended.resume else []
    lines, job, why = [], ended.job, ended.explanation
    if ended.by_user:
        lines = [f"runner: job {job.id} was cancelled, exit code {ended.exit_code}", *go_on]
    elif ended.status.state == JobState.STOPPED:
        lines = [_stopped(ended), *go_on, f"  log: {job.log}"]
    elif why:
        if shown is None or why.rank in shown or (why.rank is None and shown):
            why = replace(why, traceback=())
        how = f"{wording.describe(ended.status)}, exit code {ended.exit_code}"
        lines = [
            f"runner: job {job.id} ended: {how}",
            *explanation_lines(why, job),
            f"  log: {job.log} (all ranks: runner logs --all {job.id})",
        ]
    for line in lines:
        click.echo(line, err=True)


def _stopped(ended: JobEnd) -> str:
    why = f" ({ended.status.reason})" if ended.status.reason else ""
    step = ended.saved_step
    saved = f"checkpoint at step {step} saved" if step is not None else "no checkpoint of ours"
    return f"runner: job {ended.job.id} stopped early{why}: {saved}, exit code {ended.exit_code}"


def tell_success(ended: JobEnd) -> None:
    """Say that a job that was waited for ended well, and after how long."""
    status = ended.status
    if status.state == JobState.COMPLETED:
        after = f" after {span(status.elapsed)}" if status.elapsed else ""
        printer.tell(f"job {ended.job.id}: {wording.describe(status)}{after}")


def tell_cancelled(job: Job) -> None:
    click.echo(f"job {job.id} cancelled", err=True)


def finish(
    ended: JobEnd, shown: Collection[int] | None = (), as_json: bool = False, quiet: bool = False
) -> None:
    """Print the ending and the result of a job that was waited for.

    `shown` are the ranks (None: all) whose tracebacks are on the screen already.
    """
    show(ended, shown)
    if ended.odd:
        printer.tell(ended.odd)
    if as_json:
        printer.print_json(end.facts(ended))
    elif not quiet:
        if ended.result is not None:
            facts = result_facts.main(ended.result)
            printer.result_table(facts)
            if len(facts) < len(ended.result):
                printer.tell(f"the whole result: runner result {ended.job.id}")
        elif ended.lacks_result:
            printer.tell(end.NO_RESULT)
        for line in end.traces(ended.paths):
            printer.tell(line)


def explanation_lines(explanation: Explanation, job: Job | None = None) -> list[str]:
    """Return an explanation for people, one fact a line under its word."""
    typed = job.typed if job else end.UNKNOWN_LAUNCH
    if not explanation.failed:
        return list(map(harmless, diagnosis.lines(explanation, mark="  ")))
    of_all = explanation.who and explanation.rank is None and not explanation.host
    facts = [
        ("cause", [explanation.what]),
        ("failed" if of_all else "first to fail", [explanation.who]),
        ("traceback", explanation.traceback),
        ("evidence", explanation.evidence_lines),
        ("fix", _fix(explanation, typed)),
        *(("or", [f"{fix.does}:", suggest.text(fix, typed)]) for fix in explanation.remedies[1:]),
        ("fixed by", [FIXED_BY.get(explanation.fixed_by, "")]),
        ("tell", [explanation.tell]),
        ("certainty", [f"{explanation.certainty.value}: {explanation.because}"]),
    ]
    return [
        harmless(line)
        for word, texts in facts
        for line in diagnosis.hanging(f"  {word}:".ljust(WIDTH), filter(None, texts), " " * WIDTH)
    ]


def _fix(explanation: Explanation, typed: CommandLine) -> list[str]:
    """Return what to do in words, and the command that does it, as far as there is one."""
    fix = explanation.fix
    command = suggest.text(fix, typed) if fix else ""
    steps = list(explanation.steps)
    return steps if fix and fix.kind == ADVICE and steps else [*steps, command]
