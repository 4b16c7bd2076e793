"""What is left when no signature knows the failure: an exception, an exit code, or nothing."""

from __future__ import annotations

import re

from ..injob import failure_kinds as kinds
from .explanation import Certainty, Finding, Signature
from .facts import Facts
from .finding_helpers import certain, edit, logs, own_code, who

OF_A_TYPE = re.compile(r"[\w.]*(?:Error|Exception|Interrupt)\b")
SHOWN = 8  # lines of a failure that nobody knows


def exception(facts: Facts) -> Finding | None:
    """A Python exception ended the first rank."""
    shown = facts.kind == kinds.EXIT and OF_A_TYPE.match(facts.error)
    if facts.kind != kinds.EXCEPTION and not shown:
        return None
    return certain(facts, f"{who(facts)} ended with {facts.error}", edit(facts), *own_code(facts))


def own_words(facts: Facts) -> Finding | None:
    """The trainer ended itself, and said why."""
    record = facts.record
    if record is None or record.kind != kinds.EXIT or record.guessed or not record.error:
        return None
    words = record.error.removeprefix("error: ")
    return certain(
        facts, f"the trainer ended itself on {who(facts)}: {words}", logs(facts),
        because="these are its own last words, with its exit code",
    )  # fmt: skip


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
    cause = f"{first.name} failed: {first.how}"
    if first.alike == 1:
        cause = f"{first.name} was the first to fail: {first.how}"
    because = "no signature knows it; these are the first lines that look like errors"
    return _unsure(facts, cause, (*first.evidence, *seen), because if own else "no error is logged")


def _unsure(facts: Facts, cause: str, evidence: tuple[object, ...], because: str) -> Finding:
    return Finding(cause, evidence, logs(facts), Certainty.UNSURE, because)


def _end(facts: Facts) -> str:
    code = "" if facts.exit_code is None else f", exit code {facts.exit_code}"
    return f"{facts.state.value}{code}"


SIGNATURES = (Signature("rank-exception", exception), Signature("trainer-gave-up", own_words))
