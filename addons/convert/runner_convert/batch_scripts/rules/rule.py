"""A rule and a finding, as values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, NamedTuple

from ..script import Script


class ScriptFinding(NamedTuple):
    """What will happen because of a line, and the right form."""

    line: int
    code: str
    what: str
    right: str


Places = Iterator[tuple[int, str, str]]  # line, what will happen, the right form
Check = Callable[[Script], Places]
RULES: dict[str, Check] = {}  # by code, which is a heading of docs/reference/batch-findings.md


def rule(check: Check) -> Check:
    """Note a function that yields the places of a mistake; its name is the code, with dashes."""
    RULES[check.__name__.replace("_", "-")] = check
    return check
