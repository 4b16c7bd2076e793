"""A rule and a finding, as values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

from ..script import Script

Places = Iterator[tuple[int, str, str]]  # line, what will happen, the right form
Check = Callable[[Script], Places]
RULES: dict[str, Check] = {}  # by id, which is a heading of docs/reference/batch-findings.md


def rule(check: Check) -> Check:
    """Note a function that yields the places of a mistake; its name is the id, with dashes."""
    RULES[check.__name__.replace("_", "-")] = check
    return check
