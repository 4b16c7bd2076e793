"""Errors that a user reads: what happened, the evidence, the next command.

The kinds tell whose fault it is, and each has the exit code of the command that it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Callable

from ..contract.exit_codes import EXIT_NOT_VERIFIED
from .diagnosis import Diagnosis, Severity, lines
from .remedy import Remedy, advice


class RunnerError(Exception):
    """Base of all: a diagnosis that is raised.

    A remedy that is a text stands for advice, line by line. Without an `id` the diagnosis has that
    of its kind. `tried` is whether each remedy was planned and works. Of several faults `faults`
    has each by itself.
    """

    exit_code = 1
    id = "error"
    tried = False
    faults: tuple[Diagnosis, ...] = ()

    def __init__(
        self,
        what: str,
        evidence: str = "",
        remedy: str | Remedy | Sequence[Remedy] = (),
        id: str = "",
    ) -> None:
        super().__init__(what)
        if isinstance(remedy, str):
            remedy = [advice(line) for line in remedy.splitlines()]
        remedies = (remedy,) if isinstance(remedy, Remedy) else tuple(remedy)
        self.diagnosis = Diagnosis(id or self.id, Severity.FAILURE, what, evidence, remedies)

    @property
    def what(self) -> str:
        return self.diagnosis.what

    @property
    def evidence(self) -> str:
        return self.diagnosis.evidence

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return self.diagnosis.remedies

    def change(self, **fields: Any) -> None:
        """Say something else of the diagnosis: `change(remedies=...)`."""
        self.diagnosis = replace(self.diagnosis, **fields)

    def __str__(self) -> str:
        return "\n".join(lines(self.diagnosis))


class UsageError(RunnerError):
    """The user's request cannot be understood or contradicts itself."""

    exit_code = 2
    id = "usage"


class Refused(RunnerError):
    """The request is clear, but it cannot work here; nothing was started."""

    exit_code = 80
    id = "refused"


class SystemFault(RunnerError):
    """A system error: a build step, the scheduler, a disk, a missing program."""

    id = "system-fault"


class MissingProgram(SystemFault):
    """A program that is not on this machine."""

    id = "missing-program"


class NotVerified(RunnerError):
    """An image's signature, digest or behaviour is wrong."""

    exit_code = EXIT_NOT_VERIFIED
    id = "not-verified"


class NotFound(UsageError):
    """A name that does not exist."""

    id = "not-found"


class FirstProblem:
    """Raises the first error: what a single caller wants to know."""

    def of(self, function: Callable[..., Any], *args: Any, instead: Any = None) -> Any:
        """Return what the function does; `instead` stands for it where the error is kept."""
        return function(*args)


class Problems(FirstProblem):
    """Collects the user's mistakes and what cannot work, so that they are told at once."""

    def __init__(self) -> None:
        self.found: list[RunnerError] = []

    def of(self, function: Callable[..., Any], *args: Any, instead: Any = None) -> Any:
        try:
            return function(*args)
        except (UsageError, Refused) as error:
            self.keep(error)
            return instead

    def keep(self, error: RunnerError | None) -> None:
        """Keep an error if there is one, once: more than one step may read the same setting."""
        if error and str(error) not in map(str, self.found):
            self.found.append(error)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?", or the list of what there is."""
    names = sorted(known)
    if near := close(word, names):
        return "did you mean " + " or ".join(near) + "?"
    return "one of: " + ", ".join(names) if names else ""


def close(word: str, known: Iterable[str]) -> list[str]:
    """Return the names that are nearest to a word, all about as near; none for one unlike all."""
    import difflib  # for a mistake only

    near = difflib.get_close_matches(word, sorted(known), n=3, cutoff=0.5)
    alike = [difflib.SequenceMatcher(None, name, word).ratio() for name in near]
    return [name for name, ratio in zip(near, alike) if ratio > alike[0] - 0.1]
