"""How an explanation is shown wherever a job's failure is told: for people, and as JSON."""

from __future__ import annotations

from typing import Any

from ..core.job_record import Job
from ..explain.explanation import Explanation
from . import suggest

WIDTH = len("first to fail: ")


def facts(said: Explanation, job: Job) -> dict[str, Any]:
    """Return an explanation for programs; `fix` has the whole command as its text."""
    return {
        "id": job.id,
        "name": said.name,
        "cause": said.cause,
        "who": said.who,
        "rank": said.rank,
        "host": said.host,
        "evidence": list(said.evidence),
        "traceback": list(said.traceback),
        "fix": suggest.as_json(said.fix, suggest.of_job(job)) if said.fix else None,
        "other_fixes": [
            {"does": does, **suggest.as_json(other, suggest.of_job(job))}
            for does, other in said.others
        ],
        "certainty": said.certainty.value,
        "because": said.because,
    }


def lines(said: Explanation, job: Job) -> list[str]:
    """Return an explanation for people, one fact a line under its word."""
    if not said.failed:
        return [f"  {line}" for line in (said.cause, *said.evidence)]
    who = "failed" if said.who and said.rank is None and not said.host else "first to fail"
    facts = [("cause", [said.cause]), (who, [said.who]), ("traceback", list(said.traceback))]
    fix = suggest.text(said.fix, suggest.of_job(job)) if said.fix else ""
    facts += [("evidence", list(said.evidence)), ("fix", [fix])]
    for does, other in said.others:
        facts.append(("or", [f"{does}:", suggest.text(other, suggest.of_job(job))]))
    facts += [("certainty", [f"{said.certainty.value}: {said.because}"])]
    return [
        f"  {word + ':' if at == 0 else '':<{WIDTH}}{text}"
        for word, texts in facts
        for at, text in enumerate(texts)
        if text
    ]
