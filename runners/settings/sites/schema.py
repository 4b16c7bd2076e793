"""The keys of a profile, their kinds, and what is wrong with a table of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.errors import UsageError, nearest
from ...schedulers import SCHEDULERS, capabilities
from ..config import check_table
from ..request import TIME
from ..table import SETTINGS

WORDS = {
    "text": "a string",
    "count": "a whole number, 0 or more",
    "switch": "true or false",
    "list": "a list of strings",
    "texts": "a table of strings",
    "lists": "a table of lists of strings",
    "times": "a table of Slurm's time limits, such as 1-12:00:00",
    "pattern": "a regular expression",
    "table": "a table",
}


class Each(dict[str, Any]):
    """The keys of each of several tables, which the profile names itself."""


SOURCE = {"text": "text", "date": "text"}
REQUIREMENT = {
    "reason": "text",
    "remedy": "text",
    "pattern": "pattern",
    "gpus_only": "switch",
    "optional": "switch",
}
RULES = {
    "require": Each(REQUIREMENT),
    "forbid": "texts",
    "submit_below": "list",
    "gpu_request": "text",
    "gpu_type": "switch",
    "max_time": "times",
    "whole_nodes": "list",
    "no_fast_network": "list",
}
KIND_OF_NODE = {"cpus": "count", "gpus": "count", "gpu_type": "text", "architecture": "text"}
KEYS: dict[str, Any] = {
    "base": "text",
    "title": "text",
    "scheduler": "text",
    "runtimes": "list",
    "login": "text",
    "gpu_order": "text",
    "module_use": "list",
    "rendered": "list",
    "env": "texts",
    "paths": "texts",
    "runtime_args": "lists",
    "detect": {"clusters": "list", "hosts": "list", "env": "texts"},
    "rules": RULES,
    "nodes": Each(KIND_OF_NODE),
    "host_mpi": {"binds": "list", "library_path": "text", "modules": "list"},
    "sources": Each(SOURCE),
    "launch": "settings",
}
# Dotted keys whose values are one of a few words; "[]" stands for each of a list.
CHOICES = {
    "scheduler": tuple(name for name in SCHEDULERS if not capabilities(name).within_job),
    "runtimes": ("apptainer", "singularity", "shifter", "podman-hpc", "none"),
    "rules.gpu_request": ("gres", "gpus-per-node"),
}
INNER = {"texts": "text", "lists": "list", "times": "time"}
# Tables whose keys are settings of a launch.
BY_SETTING = ("rules.require", "rules.forbid")


def faults(table: Mapping[str, Any]) -> list[str]:
    """Return every fault of a profile as it was parsed, each a sentence; empty when there is none.

    A missing source is none: `lint` looks for those.
    """
    return _in_table(table, KEYS, "")


def _in_table(table: Mapping[str, Any], keys: Mapping[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for key, value in table.items():
        if key not in keys:
            found.append(f"unknown key {prefix}{key}; {nearest(key, keys)}")
        else:
            found += _in_value(prefix + key, keys[key], value)
    return found


def _in_value(key: str, kind: Any, value: Any) -> list[str]:
    if kind == "settings":
        return _in_launch(key, value)
    if not is_a("table" if isinstance(kind, dict) else kind, value):
        return [
            f"{key} must be {WORDS['table' if isinstance(kind, dict) else kind]}, not {value!r}"
        ]
    if key in BY_SETTING:
        unknown = [name for name in value if name not in SETTINGS]
        if unknown:
            return [f"unknown key {key}.{name}; {nearest(name, SETTINGS)}" for name in unknown]
    if isinstance(kind, Each):
        return _in_each(key, kind, value)
    if isinstance(kind, dict):
        return _in_table(value, kind, key + ".")
    return _in_words(key, value)


def _in_each(key: str, kind: Each, tables: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, table in tables.items():
        found += _in_value(f"{key}.{name}", dict(kind), table)
    return found


def _in_words(key: str, value: Any) -> list[str]:
    choices = CHOICES.get(key)
    given = value if isinstance(value, list) else [value]
    wrong = [word for word in given if choices and word not in choices]
    return [f"{key}: {word!r} is not one of {', '.join(choices or ())}" for word in wrong]


def _in_launch(key: str, table: Any) -> list[str]:
    if not isinstance(table, dict):
        return [f"{key} must be a table, not {table!r}"]
    found = []
    for name, value in table.items():
        try:
            check_table(key, {name: value})
        except UsageError as error:
            found.append("; ".join(filter(None, (error.message, error.evidence))))
    return found


def is_a(kind: str, value: Any) -> bool:
    """Whether a parsed value is of one of the kinds in WORDS."""
    if kind == "count":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind == "list":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind in INNER:
        return isinstance(value, dict) and all(is_a(INNER[kind], item) for item in value.values())
    if kind == "time":
        return isinstance(value, str) and TIME.fullmatch(value) is not None
    if kind == "pattern":
        return isinstance(value, str) and _compiles(value)
    return isinstance(value, {"text": str, "switch": bool, "table": dict}[kind])


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
