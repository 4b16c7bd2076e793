"""Questions to the machine that always come back: each has a time limit and never raises."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ..core import shell
from ..core.errors import RunnerError
from ..injob.rank.ansi import plain
from .finding import WARNING, Finding

SECONDS = 10.0
LINES_SHOWN = 6


@dataclass(frozen=True)
class Answer:
    """What a program said. `problem` tells why it is no answer, and is empty for exit code 0."""

    command: str
    out: str = ""
    err: str = ""
    problem: str = ""

    @property
    def shown(self) -> str:
        """The command and the beginning of what it said, as evidence."""
        lines = (self.out + self.err).strip().splitlines()
        more = ["..."] if len(lines) > LINES_SHOWN else []
        return "\n".join([f"$ {self.command}", *lines[:LINES_SHOWN], *more])


def ask(
    argv: Sequence[str], seconds: float = SECONDS, env: Mapping[str, str] | None = None
) -> Answer:
    """Run a command for `seconds` at most."""
    command = " ".join(argv)
    try:
        done = shell.run(argv, env=env, timeout=seconds)
    except (RunnerError, OSError) as error:
        return Answer(command, problem=str(error))
    problem = f"{argv[0]} ended with exit code {done.code}" if done.code else ""
    return Answer(command, plain(done.out), plain(done.err), problem)


@dataclass(frozen=True)
class Subject:
    """Something to look at; `look` may take `seconds`, after which the others go on without it."""

    name: str
    look: Callable[[], list[Finding]]
    seconds: float = 60.0


def examine(subjects: Sequence[Subject]) -> list[Finding]:
    """Return the findings of all subjects, looked at side by side, in the subjects' order."""
    looks = [_Look(subject) for subject in subjects]
    return [finding for look in looks for finding in look.findings()]


class _Look:
    """One subject in a thread of its own, which a dead file system cannot keep us from leaving."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.found: list[Finding] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = self.subject.look()
        except BaseException as error:  # handed on to the thread that asks
            self.error = error

    def findings(self) -> list[Finding]:
        self.thread.join(self.subject.seconds)
        if self.thread.is_alive():
            return [self._none(f"did not answer within {self.subject.seconds:.0f} s")]
        if isinstance(self.error, (RunnerError, OSError)):
            return [self._none("could not be looked at", str(self.error))]
        if self.error is not None:
            raise self.error
        return self.found

    def _none(self, says: str, evidence: str = "") -> Finding:
        return Finding(self.subject.name, "answer", WARNING, says, evidence)


def in_time(function: Callable[[], Any], seconds: float) -> Any:
    """Return what `function` returns, None when it takes longer or the system refuses it."""
    results: list[Any] = []

    def call() -> None:
        try:
            results.append(function())
        except OSError:
            results.append(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None
