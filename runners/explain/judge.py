"""The explanation of a job: what the signatures make of its facts.

All that fit are candidates, from the particular to the general; `Candidate.key` says which one
explains a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path

from ..core.diagnosis import Certainty, Severity
from ..core.job_record import Job, JobPaths, JobState, Status
from ..core.remedy import LAUNCH, Remedy
from . import (
    container_errors,
    ended_by_slurm,
    fallback,
    file_errors,
    first_failure,
    import_errors,
    message_signatures,
    read_facts,
    rendezvous,
    run_signatures,
    signal_errors,
    trainer_errors,
)
from .explanation import AUTHOR, NOBODY, YOU, Candidate, Explanation, Precedence, Signature
from .facts import Facts, LogPattern
from .findings import user_line
from .fixes import edit

MODULES = (
    *(container_errors, ended_by_slurm, fallback, file_errors, import_errors),
    *(rendezvous, signal_errors, trainer_errors),
)
SIGNATURES: tuple[Signature, ...] = (
    *chain(*(module.SIGNATURES for module in MODULES)),
    *run_signatures.signatures(),
)
PATTERNS: tuple[LogPattern, ...] = tuple(chain(*(kind.patterns for kind in SIGNATURES)))
# What goes by the rank's own error, which for a log without records is its first exception
BY_ERROR = (
    *(Precedence.HOME, Precedence.IMPORT, Precedence.FILE, Precedence.TRAINER),
    Precedence.FALLBACK,
)
NOTHING = {
    JobState.PENDING: "the job has not started",
    JobState.RUNNING: "nothing has failed so far",
    JobState.COMPLETED: "nothing failed",
}


def explain(paths: JobPaths, job: Job, status: Status) -> Explanation:
    """Return why the job ended as it did; with `failed` false when there is nothing to explain.

    Raises SystemFault when the run's folder cannot be read.
    """
    return judge(read_facts.facts(paths, job, status, PATTERNS))


def explain_text(path: Path, name: str) -> Explanation:
    """Return what a log alone tells of a failure. Raises OSError when it cannot be read."""
    return judge(ended_by_slurm.end_in_text(read_facts.of_text(path, name, PATTERNS)))


def judge(facts: Facts) -> Explanation:
    """Return what the best candidate says, or that nobody knows this failure."""
    facts = ended_by_slurm.end_in_sight(facts)
    nothing = _nothing(facts)
    if nothing and facts.state != JobState.RUNNING:
        return nothing
    candidates = [*_candidates(facts, early=nothing is not None)]
    if candidates:
        return _completed(min(candidates, key=attrgetter("key")).explanation, facts)
    return nothing or _completed(fallback.unknown(facts), facts)


def _candidates(facts: Facts, early: bool) -> Iterator[Candidate]:
    """Yield what each signature that fits says; only the early ones of a job that runs well."""
    resources = facts.resources
    several = max(resources.nodes, resources.ntasks or 1, resources.ntasks_per_node or 1) > 1
    logged = replace(facts, first=first_failure.as_logged(facts.first, facts.log, several))
    for signature in SIGNATURES:
        if signature.early or not early:
            by_error = Precedence.group(signature.precedence) in BY_ERROR
            yield from filter(None, [signature.ask(logged if by_error else facts)])
    if not early:
        yield from _messages(facts, logged)


def _messages(facts: Facts, logged: Facts) -> Iterator[Candidate]:
    """Yield what other programs say: in the log's exception, or elsewhere in the log.

    Of a log without records all lines are searched, also those of what did no harm: none counts
    where a rank survived some, and no unsure one beside an exception with its traceback. What leads
    to a crash is looked for in all lines, and always counts.
    """
    if logged.first is facts.first:
        yield from message_signatures.candidates(facts)
        return
    ended_with_it = logged.record is not None and not logged.record.guessed
    traced = any(first_failure.TRACEBACK in line.text for line in facts.log.last)
    for candidate in message_signatures.candidates(logged):
        if not _before_crash(candidate):
            yield candidate
    for candidate in message_signatures.candidates(facts):
        unsure = candidate.explanation.certainty is Certainty.UNSURE
        if _before_crash(candidate) or not (ended_with_it or (traced and unsure)):
            yield replace(candidate, in_log=True)


def _before_crash(candidate: Candidate) -> bool:
    return Precedence.group(candidate.precedence) is Precedence.MESSAGE_BEFORE_CRASH


def _nothing(facts: Facts) -> Explanation | None:
    if facts.state not in NOTHING or (facts.state == JobState.RUNNING and facts.first):
        return None
    said = facts.state.value, Severity.OK, NOTHING[facts.state]
    return Explanation(*said, because="that is its state")


def _completed(explanation: Explanation, facts: Facts) -> Explanation:
    """Return what a signature said with the rank that it is about, and who can fix it."""
    first, rank, host = facts.first, explanation.rank, explanation.host
    who = host if rank is None else f"rank {rank}@{host}".rstrip("@")
    traceback: tuple[str, ...] = ()
    doubt = first.doubt if first else ""
    if rank is None and not host and first and not explanation.of_job:
        number = first.rank if first.worker is None else first.worker
        rank, host, who = (None if first.alike > 1 else number), first.host, first.name
        traceback = first.record.traceback if first.record else ()
    return replace(
        explanation,
        id=explanation.id or "unknown",
        evidence="\n".join(dict.fromkeys(explanation.evidence_lines)),
        because="; ".join(reason for reason in (explanation.because, doubt) if reason),
        rank=rank,
        host=host if rank is not None or not first or first.alike == 1 else "",
        who=who,
        traceback=traceback,
        fixed_by=explanation.fixed_by or _fixed_by(explanation.fix, facts),
    )


def _fixed_by(fix: Remedy | None, facts: Facts) -> str:
    """Return who can do what a fix says; "" where there is nothing to fix."""
    if fix is None:
        return ""
    if fix.kind == LAUNCH and any(name == "exclude" for name, _ in fix.options):
        return NOBODY
    return AUTHOR if user_line(facts) and fix == edit(facts) else YOU
