"""Asks programs and makes checks within a time limit each; a fault is an answer, never raised."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from ..contract.log_text import plain
from ..core import shell
from ..core.errors import RunnerError
from .finding import About, Finding

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
    """Something to examine, within `seconds`; after that the others go on without it."""

    name: str
    examine: Callable[[], list[Finding]]
    seconds: float = 60.0


def examine(subjects: Sequence[Subject]) -> list[Finding]:
    """Return the findings of all subjects, looked at side by side, in the subjects' order."""
    started = [(subject, _start(subject.examine)) for subject in subjects]
    return [finding for subject, future in started for finding in _findings(subject, future)]


def _findings(subject: Subject, future: Future[list[Finding]]) -> list[Finding]:
    none = partial(About(subject.name).warning, "answer")
    if not wait([future], subject.seconds).done:
        return [none(f"did not answer within {subject.seconds:.0f} s")]
    try:
        return future.result()
    except (RunnerError, OSError) as error:
        return [none("could not be looked at", str(error))]


def _start(function: Callable[[], Any]) -> Future[Any]:
    """Call it in a thread of its own, which a dead file system cannot keep us from leaving."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # handed on to the thread that asks
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def in_time(function: Callable[[], Any], seconds: float) -> Any:
    """Return what `function` returns, None when it takes longer or the system refuses it."""
    future = _start(function)
    if not wait([future], seconds).done:
        return None
    with suppress(OSError):
        return future.result()
    return None
