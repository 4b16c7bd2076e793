"""What is wrong with a profile's file: keys, types, bases, and values without source or date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...core import toml_check
from ...core.errors import UsageError
from ..config import read_toml
from . import load

DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


def faults(path: Path, env: Mapping[str, str]) -> list[str]:
    """Return every fault of a file, each a sentence; empty when there is none."""
    try:
        table = read_toml(path)
    except UsageError as error:
        return [f"{error.message}: {error.evidence}"]
    found = toml_check.faults(load.KEYS, table)
    if found:
        return found  # what follows needs the right types
    try:
        made = load.build(path.stem, load.parts(path, env))
    except UsageError as error:
        return [" ".join(f"{error.message} {error.evidence}".split())]
    reasons = [
        f"rules.require.{setting} has no reason"
        for setting, rule in made.rules.require.items()
        if not rule.reason
    ]
    return [*reasons, *_sources(table)]


def _sources(table: load.Table) -> list[str]:
    sources, keys = table.get("sources", {}), [key for key, _ in load.leaves(table)]
    missing = [f"{key} has no source" for key in keys if not load.source_of(key, sources)]
    return [*missing, *(text for name in sources for text in _source(name, sources[name], keys))]


def _source(name: str, source: Mapping[str, str], keys: list[str]) -> list[str]:
    found = []
    if not source.get("text"):
        found.append(f"sources.{name} has no text")
    if not DATE.fullmatch(source.get("date", "")):
        found.append(f"sources.{name} has no date such as 2026-11-21")
    if not any(f"{key}.".startswith(f"{name}.") for key in keys):
        found.append(f"sources.{name} is about nothing in this file")
    return found
