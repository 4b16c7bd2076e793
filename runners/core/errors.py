"""Errors that a user reads: what happened, the evidence, the next command.

The kinds tell whose fault it is; only `cli` turns them into exit codes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RunnerError(Exception):
    """Base of all: `message` says what happened, `evidence` shows it, `remedy` is what to type.

    Several remedies stand on lines of their own, the best first.
    """

    def __init__(self, message: str, evidence: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.evidence, self.remedy = message, evidence, remedy

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {line}" for line in self.evidence.strip().splitlines()]
        lines += [f"  try: {line}" for line in self.remedy.splitlines()]
        return "\n".join(lines)


class UsageError(RunnerError):
    """The user's request cannot be understood or contradicts itself."""


class Refused(RunnerError):
    """The request is clear, but it cannot work here; nothing was submitted."""


class SystemFault(RunnerError):
    """Something outside failed: the scheduler, a disk, a program that is not there."""


class NotVerified(RunnerError):
    """An image is not what it should be: its signature, its digest or what it does is wrong."""


class NotFound(UsageError):
    """A name that stands for nothing."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "did you mean ...", or the list of what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "one of: " + ", ".join(names) if names else ""
