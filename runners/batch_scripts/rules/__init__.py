"""What is wrong in a batch script: each rule has a stable code, and notes itself in RULES."""

from __future__ import annotations

from ..script import Script
from . import containers, network, ranks, shell, slurm  # noqa: F401  they note their rules
from .rule import RULES, Finding

__all__ = ["RULES", "findings"]


def findings(script: Script) -> list[Finding]:
    return sorted(finding for rule in RULES for finding in rule.findings(script))
