"""Compares versions."""

from __future__ import annotations

import re


def older(version: str, minimum: str) -> bool:
    """Compare dotted numbers: 525.9 is older than 525.60.13."""
    numbers, needed = ([int(n) for n in re.findall(r"\d+", text)] for text in (version, minimum))
    return numbers < needed
