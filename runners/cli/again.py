"""The command that was typed, with other options: what a refusal offers to type instead."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from ..settings import SETTINGS

COMMANDS = ("launch", "plan", "doctor")


def with_options(options: str, typed: Sequence[str] | None = None) -> str:
    """Return the whole command with `options` in it; `options` alone when it is not one of ours.

    A remedy that does not begin with a dash is a command of its own.
    """
    words = list(sys.argv[1:] if typed is None else typed)
    if not options.startswith("-") or not words or words[0] not in COMMANDS:
        return options
    end = words.index("--") if "--" in words else len(words)
    changed = options.split()
    kept = _without([word for word in changed if word.startswith("-")], words[1:end])
    return f"runner launch {options} {shlex.join([*kept, *words[end:]])}"


def _without(names: list[str], words: list[str]) -> list[str]:
    """Return the words that do not set what the options in `names` set."""
    flags = {word for name in names for word in _spellings(name)}
    kept: list[str] = []
    skip = False
    for word in words:
        name = word.partition("=")[0]
        if skip:
            skip = False
        elif name in flags:
            skip = "=" not in word and not _is_switch(name)
        else:
            kept.append(word)
    return kept


def _spellings(option: str) -> list[str]:
    name = option.lstrip("-").removeprefix("no-") if option.startswith("--no-") else option[2:]
    setting = SETTINGS.get(name)
    words = setting.words if setting else ()
    return [f"--{name}", f"--no-{name}", *words]


def _is_switch(name: str) -> bool:
    for setting in SETTINGS.values():
        if name in (*setting.words, f"--{setting.name}", f"--no-{setting.name}"):
            return setting.kind == "switch"
    return False
