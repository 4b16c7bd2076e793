"""What is wrong in a batch script: each rule has a stable code, and notes itself in RULES."""

from __future__ import annotations

from ..script import Script
from . import containers, places, ranks, rendezvous, slurm  # noqa: F401  they note their rules
from .rule import RULES, ScriptFinding

__all__ = ["RULES", "findings"]


def findings(script: Script) -> list[ScriptFinding]:
    """Return what is wrong by line; of a code the first finding of each line."""
    first: dict[tuple[int, str], ScriptFinding] = {}
    for code, check in RULES.items():
        for line, what, right in check(script):
            first.setdefault((line, code), ScriptFinding(line, code, what, right))
    return sorted(first.values())
