"""Values with their sources -> the text of a profile. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Fact:
    """A value of a profile: the tables it stands in and its key, and where it comes from."""

    path: tuple[str, ...]
    value: Any
    source: str


def profile(title: str, base: str, facts: Sequence[Fact], date: str) -> str:
    """Return a profile with all facts, their sources dated `date` (ISO)."""
    lines = [f"title = {_value(title)}", *([f"base = {_value(base)}"] if base else [])]
    lines += [_line(fact) for fact in facts if len(fact.path) == 1]
    for table in dict.fromkeys(fact.path[:-1] for fact in facts if len(fact.path) > 1):
        lines += ["", f"[{'.'.join(map(_key, table))}]"]
        lines += [_line(fact) for fact in facts if fact.path[:-1] == table]
    lines += ["", "[sources]"]
    for key, source in _sources(facts):
        lines.append(f"{_key(key)} = {{ text = {_value(source)}, date = {_value(date)} }}")
    return "\n".join([*lines, ""])


def _sources(facts: Sequence[Fact]) -> Iterable[tuple[str, str]]:
    """One source for a whole table where all of it has the same, else one for each value."""
    for top in dict.fromkeys(fact.path[0] for fact in facts):
        within = [fact for fact in facts if fact.path[0] == top]
        if len({fact.source for fact in within}) == 1:
            yield top, within[0].source
        else:
            yield from ((".".join(fact.path), fact.source) for fact in within)


def _line(fact: Fact) -> str:
    return f"{_key(fact.path[-1])} = {_value(fact.value)}"


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    """JSON's strings, numbers, lists and switches are TOML's, but for DEL, which TOML escapes."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
