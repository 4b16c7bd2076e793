"""Why a job failed: cause, evidence, a command that mends it, and how sure that is.

`gather` reads the run's folder, the signatures of `table` judge what it found. A new kind of
failure is one pure function in one of the modules that `table` lists.
"""

from __future__ import annotations

from ..core.job_record import Job, JobPaths, JobState
from ..jobs import srun_messages
from ..jobs.job_status import Status
from . import gather, general
from .model import COMPLETED, PENDING, RUNNING, Certainty, Explanation, Facts, Finding, Mark
from .signatures import MARKS, SIGNATURES

__all__ = ["Certainty", "Explanation", "culprit", "explain", "first_code", "judge"]
# The shim's warning (rank/trainer.py)
ALONE = Mark("runner: warning: the trainer ended without hvd.init()")
NOTHING = {
    JobState.PENDING: (PENDING, "the job has not started"),
    JobState.RUNNING: (RUNNING, "nothing has failed so far"),
    JobState.COMPLETED: (COMPLETED, "nothing failed"),
}


def explain(paths: JobPaths, job: Job, status: Status) -> Explanation:
    """Return why the job ended as it did; with `failed` false when there is nothing to explain.

    Raises SystemFault when the run's folder cannot be read.
    """
    return judge(gather.facts(paths, job, status, (*MARKS, ALONE)))


def culprit(paths: JobPaths, job: Job) -> str | None:
    """Return what failed first, as `rank R@HOST: how`, None when nobody left a trace."""
    first = gather.first(paths, job)
    return str(first) if first else None


def first_code(paths: JobPaths, job: Job) -> int | None:
    """Return the exit code of the rank that failed first; None where nobody knows it."""
    first = gather.first(paths, job)
    if first is None:
        return None
    return first.record.exit_code if first.record else srun_messages.code(first.how)


def judge(facts: Facts) -> Explanation:
    """Return what the signatures make of the facts: the first sure one, else the first unsure."""
    nothing = _nothing(facts)
    if nothing and facts.state != JobState.RUNNING:
        return nothing
    asked = [one for one in SIGNATURES if one.early or not nothing]
    findings = ((one.name, one.judge(facts)) for one in asked)
    unsure: Explanation | None = None
    for name, found in findings:
        if found and found.certainty != Certainty.UNSURE:
            return _explanation(name, found, facts)
        if found and unsure is None:
            unsure = _explanation(name, found, facts)
    return unsure or nothing or _explanation("unknown", general.unknown(facts), facts)


def _nothing(facts: Facts) -> Explanation | None:
    if facts.state not in NOTHING or (facts.state == JobState.RUNNING and facts.first):
        return None
    name, cause = NOTHING[facts.state]
    alone = facts.lines(ALONE)[:1] if name == COMPLETED else ()
    if alone:
        cause += ", but no rank called hvd.init(): each trained a copy of its own"
    seen = tuple(map(str, alone))
    return Explanation(name, cause, seen, "", Certainty.CERTAIN, "that is its state")


def _explanation(name: str, found: Finding, facts: Facts) -> Explanation:
    first = facts.first
    rank, host = found.rank, found.host
    if not host and first:
        rank, host = first.rank, first.host
    because = "; ".join(text for text in (found.because, first.doubt if first else "") if text)
    evidence = tuple(dict.fromkeys(map(str, found.evidence)))
    return Explanation(
        name, found.cause, evidence, found.fix, found.certainty, because, rank, host
    )  # fmt: skip
