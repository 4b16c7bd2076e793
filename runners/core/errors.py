"""Errors that a user reads: what happened, the evidence, the next command.

The kinds tell whose fault it is, and each has the exit code of the command that it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runners.core.remedy import Remedy, advice


class RunnerError(Exception):
    """Base of all: `what` happened, the `evidence` for it, and `remedies`, the best first.

    A remedy that is a text stands for advice, line by line. `tried` is whether they were planned,
    each as a whole command, and work.
    """

    exit_code = 1
    tried = False

    def __init__(
        self, what: str, evidence: str = "", remedy: str | Remedy | Sequence[Remedy] = ()
    ) -> None:
        super().__init__(what)
        self.what, self.evidence = what, evidence
        if isinstance(remedy, str):
            remedy = [advice(line) for line in remedy.splitlines()]
        self.remedies = (remedy,) if isinstance(remedy, Remedy) else tuple(remedy)

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  {line}" for line in self.evidence.strip().splitlines()]
        lines += [f"  try: {remedy}" for remedy in self.remedies]
        return "\n".join(lines)


class UsageError(RunnerError):
    """The user's request cannot be understood or contradicts itself."""

    exit_code = 2


class Refused(RunnerError):
    """The request is clear, but it cannot work here; nothing was started.

    Of several faults `single` has the remedies, each of which fixes one.
    """

    exit_code = 80
    single: tuple[Remedy, ...] = ()


class SystemFault(RunnerError):
    """A system error: a build step, the scheduler, a disk, a missing program."""


class NotVerified(RunnerError):
    """An image's signature, digest or behaviour is wrong."""

    exit_code = 81


class NotFound(UsageError):
    """A name that does not exist."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?", or the list of what there is.

    Beside the nearest name only those that are about as near.
    """
    import difflib  # for a mistake only

    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    if close:
        alike = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
        close = [name for name, near in zip(close, alike) if near > alike[0] - 0.1]
        return "did you mean " + " or ".join(close) + "?"
    return "one of: " + ", ".join(names) if names else ""
