"""How an explanation is shown wherever a job's failure is told: for people, and as JSON."""

from __future__ import annotations

import os
import shlex
from typing import Any

from ..core.job_record import Job
from ..explain.explanation import Explanation
from . import suggest

WIDTH = len("first to fail: ")
FOR_PROGRAMS = ("--parsable", "--json")  # a person is to type the command


def facts(said: Explanation, job: Job) -> dict[str, Any]:
    """Return an explanation for programs; `fix` is the whole command."""
    return {
        "id": job.id,
        "name": said.name,
        "cause": said.cause,
        "who": said.who,
        "rank": said.rank,
        "host": said.host,
        "evidence": list(said.evidence),
        "traceback": list(said.traceback),
        "fix": command(said.fix, job),
        "certainty": said.certainty.value,
        "because": said.because,
    }


def lines(said: Explanation, job: Job) -> list[str]:
    """Return an explanation for people, one fact a line under its word."""
    if not said.failed:
        return [f"  {line}" for line in (said.cause, *said.evidence)]
    who = "failed" if said.who and said.rank is None and not said.host else "first to fail"
    facts = [("cause", [said.cause]), (who, [said.who]), ("traceback", list(said.traceback))]
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
