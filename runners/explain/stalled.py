"""A job whose ranks waited for one that did not come: ended by a limit, or by hand."""

from __future__ import annotations

from ..core.job_record import JobState
from ..jobs.stalls import MISSING, TITLE
from .explanation import Certainty, Finding, Signature
from .facts import Facts, LogPattern
from .finding_helpers import logs_of

WAITED = LogPattern("waiting for remainder of ranks for more than")
MISSED = LogPattern(TITLE)
NAMED = LogPattern(": [", MISSING.pattern.replace(r"(?:\d+@\S+ \| )?", ""))
ENDED = (JobState.TIMEOUT, JobState.CANCELLED, JobState.RUNNING, JobState.FAILED)


def stall(facts: Facts) -> Finding | None:
    """Horovod's stall inspector named the ranks that were missed."""
    lines = facts.lines(MISSED)
    record = facts.record
    # Who is cancelled while it waits is ended by a signal, and has not failed.
    if not lines or facts.state not in ENDED or (record and not record.follower):
        return None
    named = [line for line in facts.lines(NAMED) if line.number > lines[0].number]
    ranks = sorted({line.text.strip().partition(":")[0] for line in named}, key=int)
    who = f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}" if ranks else "some ranks"
    rank = int(ranks[0]) if len(ranks) == 1 else None
    host = next((one.host for one in facts.failures if one.rank == rank), "")
    shown = (*facts.lines(WAITED)[:1], *named[:2])
    return Finding(
        f"the ranks waited for {who}, which took no part in an exchange that all others had begun",
        shown,
        logs_of(facts, int(ranks[0]) if ranks else 0),
        Certainty.LIKELY,
        "Horovod's stall inspector says so; why that rank did not come, only its own log may tell",
        rank,
        host,
    )


SIGNATURES = (Signature("stall", stall, (WAITED, MISSED, NAMED)),)
