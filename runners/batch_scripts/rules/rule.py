"""A rule and a finding, as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable, NamedTuple

from ..script import Script


class Finding(NamedTuple):
    """What will happen because of a line, and the right form."""

    line: int
    code: str
    what: str
    right: str


Places = Iterator[tuple[int, str, str]]  # line, what will happen, the right form


@dataclass(frozen=True)
class Rule:
    """A mistake by its code, which is a heading of docs/reference/batch-findings.md."""

    code: str
    check: Callable[[Script], Places]

    def findings(self, script: Script) -> Iterator[Finding]:
        first = {line: (what, right) for line, what, right in reversed([*self.check(script)])}
        return (Finding(line, self.code, *texts) for line, texts in first.items())


def counted(number: int, name: str) -> str:
    return f"{number} {name}" + "s" * (number != 1)


RULES: list[Rule] = []


def rule(code: str) -> Callable[[Callable[[Script], Places]], Rule]:
    """Make a rule of a function that yields the places of a mistake, and note it in RULES."""

    def make(check: Callable[[Script], Places]) -> Rule:
        RULES.append(Rule(code, check))
        return RULES[-1]

    return make
