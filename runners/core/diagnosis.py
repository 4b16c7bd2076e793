"""A diagnosis as a value: what is wrong, on what evidence, what to type; its text and its JSON.

Programs and tests compare `id`; sentences are for people and may change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Callable

from ..contract.enums import WordEnum
from .remedy import Remedy

VERSION = 2  # of the JSON of `plan`, `doctor`, `explain` and `convert`


class Severity(WordEnum):
    """Whether all is well, whether it is to be looked at, and whether it works."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILURE = "failure"


class Certainty(WordEnum):
    """How sure a diagnosis is, the surest first."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Diagnosis:
    """What was found, in one sentence, with any number of lines of evidence.

    `remedies` are ranked, the best first. A type that has more, such as the rank that failed, is a
    Diagnosis with further fields.
    """

    id: str
    severity: Severity
    what: str
    evidence: str = ""
    remedies: tuple[Remedy, ...] = ()
    certainty: Certainty = Certainty.CERTAIN

    @property
    def evidence_lines(self) -> list[str]:
        """Return the lines as they are: a table begins with blanks, and a log has form feeds."""
        text = self.evidence.rstrip().lstrip("\r\n")
        return re.split(r"\r\n?|\n", text) if text else []


def refusal(id: str, what: str, evidence: str = "", *remedies: Remedy) -> Diagnosis:
    """Return why something cannot work."""
    return Diagnosis(id, Severity.FAILURE, what, evidence, remedies)


def warning(id: str, what: str, *remedies: Remedy) -> Diagnosis:
    """Return what the user should know although it works."""
    return Diagnosis(id, Severity.WARNING, what, remedies=remedies)


def lines(
    found: Diagnosis,
    typed: Callable[[Remedy], str] = str,
    mark: str = "",
    indent: str = "  ",
    word: str = "try",
) -> Iterator[str]:
    """Yield a diagnosis for people: its sentence, the evidence below it, and what to try.

    `typed` returns what to type for a remedy, which comes after a `word`.
    """
    remedies = (f"{word}: {typed(remedy)}" for remedy in found.remedies)
    return hanging(mark, (found.what, *found.evidence_lines, *remedies), indent)


def hanging(mark: str, texts: Iterable[str], indent: str) -> Iterator[str]:
    """Yield the first text after a mark, and each other one below it after an indent."""
    for number, text in enumerate(texts):
        yield (indent if number else mark) + text


def as_data(found: Diagnosis, typed: Callable[[Remedy], dict[str, Any]]) -> dict[str, Any]:
    """Return a diagnosis for programs; `typed` returns a remedy with what to type."""
    return {
        "id": found.id,
        "severity": found.severity,
        "what": found.what,
        "evidence": found.evidence_lines,
        "remedies": [typed(remedy) for remedy in found.remedies],
        "certainty": found.certainty,
    }


def document(diagnoses: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """Return what a command prints with --json: its diagnoses, with more that only it has."""
    return {"version": VERSION, "diagnoses": diagnoses, **facts}
