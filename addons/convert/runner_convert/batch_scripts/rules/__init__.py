"""What is wrong in a batch script: each rule has a stable id, and notes itself in RULES."""

from __future__ import annotations

from runners.core.diagnosis import Severity
from runners.core.remedy import advice

from ...line_diagnosis import LineDiagnosis
from ..script import Script
from . import (  # noqa: F401  they note their rules
    addresses_and_ports,
    containers,
    rank_placement,
    rank_variables,
    sbatch_directives,
    secret_in_script,
    shell_mistakes,
    srun_options,
)
from .rule import RULES

__all__ = ["RULES", "findings"]


def findings(script: Script) -> list[LineDiagnosis]:
    """Return what is wrong by line; of an id the first finding of each line."""
    first: dict[tuple[int, str], LineDiagnosis] = {}
    for id, check in RULES.items():
        for line, mistake, right in check(script):
            remedies = (advice(right),)
            found = LineDiagnosis(id, Severity.WARNING, mistake, "", remedies, line=line)
            first.setdefault((line, id), found)
    return [first[place] for place in sorted(first)]
