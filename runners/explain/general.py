"""What is left when no signature knows the failure: an exception, an exit code, or nothing."""

from __future__ import annotations

import re

from ..injob.rank.gate import EXIT_WORLD_SIZE
from .model import Certainty, Facts, Finding, Line, Signature
from .words import certain, edit, logs, place, who

EXCEPTION = re.compile(r"^exit code \d+: (?P<kind>[\w.]*(?:Error|Exception|Interrupt)\b)")
OWN_WORDS = re.compile(r"^exit code \d+: (?:error: )?(?P<words>.+)")
SHOWN = 8  # lines of a failure that nobody knows


def exception(facts: Facts) -> Finding | None:
    """A Python exception ended the first rank."""
    first = facts.first
    found = EXCEPTION.match(facts.message)
    if first is None or not found or _follows(facts):
        return None
    cause = f"{who(facts)} ended with {facts.message.partition(': ')[2]}"
    return certain(facts, cause, edit(facts), *_place(facts))


def own_words(facts: Facts) -> Finding | None:
    """The trainer ended itself, and said why."""
    found = OWN_WORDS.match(facts.message)
    record = facts.record
    if not found or record is None or record.follower or record.guessed:
        return None
    if record.exit_code == EXIT_WORLD_SIZE:  # the gate's words, not the trainer's
        return None
    return certain(
        facts, f"the trainer ended itself on {who(facts)}: {found['words']}", logs(facts),
        because="these are its own last words, with its exit code",
    )  # fmt: skip


def _follows(facts: Facts) -> bool:
    return bool(facts.record and facts.record.follower)


def _place(facts: Facts) -> list[Line]:
    """Return the user's own line that was being run, and the code below it."""
    found = place(facts)
    last = list(facts.log.last)
    return last[last.index(found[0]) :][:2] if found else []


def unknown(facts: Facts) -> Finding:
    """What is known of a failure that no signature explains."""
    first = facts.first
    if first is None:
        errors = [line for line in facts.log.errors if line.rank is None] or list(facts.log.errors)
        seen = errors[:SHOWN] or list(facts.log.last[-SHOWN:])
        cause = f"the job ended ({_end(facts)}) and no rank left a record of why"
        return _unsure(facts, cause, tuple(seen), "no rank says what happened")
    own = [line for line in facts.log.errors if line.rank in (first.rank, None)]
    own = [line for line in own if not line.text.startswith("srun: error: ")]
    seen = own[:SHOWN] or list(facts.log.last[-SHOWN:])
    cause = f"rank {first.rank}@{first.host} was the first to fail: {first.how}"
    because = "no signature knows it; these are the first lines that look like errors"
    return _unsure(facts, cause, (*first.evidence, *seen), because if own else "no error is logged")


def _unsure(facts: Facts, cause: str, evidence: tuple[object, ...], because: str) -> Finding:
    return Finding(cause, evidence, logs(facts), Certainty.UNSURE, because)


def _end(facts: Facts) -> str:
    code = "" if facts.exit_code is None else f", exit code {facts.exit_code}"
    return f"{facts.state.value}{code}"


SIGNATURES = (Signature("rank-exception", exception), Signature("trainer-gave-up", own_words))
