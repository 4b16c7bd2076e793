"""Checks parsed TOML against annotations: those of a dataclass, or kinds by key; writes values.

A kind is str, int, float, bool, an enum of words, a tuple of strings, words or dataclasses (a list
in TOML), a dict of another kind, a dataclass, a union, one of these `Annotated` with a Rule, or a
mapping from keys to kinds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from ..contract.enums import WordEnum
from .errors import UsageError, nearest

WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


class Rule(NamedTuple):
    """What a value must be in addition to its type, in words, and whether it is."""

    words: str
    holds: Callable[[Any], object]


def toml(value: Any) -> str:
    """JSON's strings, numbers, lists and switches are TOML's, but for DEL, which TOML escapes."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def one_of(*choices: str) -> Rule:
    return Rule(f"one of {', '.join(choices)}", choices.__contains__)


def kinds(cls: Any, *without: str) -> dict[str, Any]:
    """Return the kinds of a dataclass's fields by name."""
    hints = _hints(cls)
    return {field.name: hints[field.name] for field in fields(cls) if field.name not in without}


@cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a class; to evaluate them takes longer than a check by them."""
    return get_type_hints(cls, include_extras=True)


def check(where: str | Path, kind: Any, value: Any) -> None:
    """Raise UsageError with all that keeps a value, from `where`, from being of a kind."""
    refuse(where, faults(kind, value))


def refuse(where: str | Path, wrong: Sequence[str]) -> None:
    """Raise UsageError with all that is wrong with a value from `where`, if anything is."""
    if wrong:
        raise UsageError(f"{where}: {wrong[0]}", "\n".join(wrong[1:]), id="table-invalid")


def faults(kind: Any, value: Any, key: str = "") -> list[str]:
    """Return all that keeps a value from being of a kind, each a sentence with its dotted key."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union:
        by_kind = [faults(member, value, key) for member in inner if member is not type(None)]
        return [] if [] in by_kind else by_kind[0]
    if origin is Annotated:
        base, rule = inner
        return faults(base, value, key) or _against(rule, value, key)
    if _is_enum(kind):
        return faults(str, value, key) or _against(one_of(*kind.words()), value, key)
    if origin is tuple:
        item_type, words = (dict, "tables") if is_dataclass(inner[0]) else (str, "strings")
        if not isinstance(value, list) or not all(isinstance(item, item_type) for item in value):
            return [_must(key, f"a list of {words}", value)]
        return [fault for item in value for fault in faults(inner[0], item, key)]
    if origin is dict or is_dataclass(kind) or isinstance(kind, Mapping):
        return _in_table(kind, value, key)
    types = (int, float) if kind is float else (kind,)
    # In Python, and not in TOML, true is an int.
    right = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    return [] if right else [_must(key, WORDS[kind], value)]


def _in_table(kind: Any, table: Any, key: str) -> list[str]:
    if not isinstance(table, dict):
        return [_must(key, "a table", table)]
    known = kinds(kind) if is_dataclass(kind) else kind
    errors: list[str] = []
    for name, value in table.items():
        path = f"{key}.{name}" if key else name
        if get_origin(kind) is dict:
            errors += faults(get_args(kind)[1], value, path)
        elif name in known:
            errors += faults(known[name], value, path)
    if get_origin(kind) is dict:
        return errors
    needed = [f.name for f in fields(kind) if _is_needed(f)] if is_dataclass(kind) else ()
    return wrong_keys(table, known, needed, key) + errors


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def wrong_keys(
    table: Mapping[str, Any], known: Collection[str], needed: Iterable[str] = (), key: str = ""
) -> list[str]:
    """Return what is wrong with the keys of a table, `key` by itself: too many, or lacking."""
    begin = f"{key}." if key else ""
    unknown = [name for name in table if name not in known]
    return [
        *(f"unknown key {begin}{name}; {nearest(name, known)}" for name in unknown),
        *(f"{key} lacks {name}".lstrip() for name in needed if name not in table),
    ]


def _against(rule: Rule, value: Any, key: str) -> list[str]:
    return [] if rule.holds(value) else [_must(key, rule.words, value)]


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, WordEnum)


def _must(key: str, words: str, value: Any) -> str:
    return f"{key} must be {words}, not {value!r}"


def convert(kind: Any, value: Any) -> Any:
    """Return a value without faults as what the kind says: enums, tuples for lists, dataclasses."""
    if get_origin(kind) is Union:
        kind = get_args(kind)[0]
    if _is_enum(kind):
        return kind(value)
    if get_origin(kind) is None and isinstance(value, dict):
        known = kinds(kind)
        return kind(**{name: convert(known[name], item) for name, item in value.items()})
    if isinstance(value, dict):
        return {name: convert(get_args(kind)[1], item) for name, item in value.items()}
    if isinstance(value, list):
        return tuple(convert(get_args(kind)[0], item) for item in value)
    return value
