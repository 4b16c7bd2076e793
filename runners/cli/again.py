"""The command that was typed, with other options: what a refusal offers to type instead."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from ..model import Refusal
from ..remedy import GO_TO, LEAVE_OUT, are_options, is_part
from ..settings import SETTINGS

COMMANDS = ("launch", "plan", "doctor")


def with_options(options: str, typed: Sequence[str] | None = None) -> str:
    """Return the whole command with `options` in it; `options` alone when it is not one of ours.

    A remedy that does not begin with a dash, or with LEAVE_OUT, is a command of its own.
    """
    words = list(sys.argv[1:] if typed is None else typed)
    if not are_options(options) or not words or words[0] not in COMMANDS:
        return options
    end = words.index("--") if "--" in words else len(words)
    changed = [word.rstrip(",") for word in options.split() if word.startswith("-")]
    added = " ".join(part for part in options.split(", ") if not part.startswith(LEAVE_OUT))
    kept = shlex.join([*_without(changed, words[1:end]), *words[end:]])
    command = "runner doctor" if words[0] == "doctor" else "runner launch"
    return " ".join(part for part in (command, added, kept) if part)


def remedies(refusals: Sequence[Refusal]) -> list[str]:
    """Return what to type instead, the best first; one command mends several faults if it can."""
    if len(refusals) == 1:
        return [_command([text]) for text in refusals[0].remedies]
    first = [refusal.remedies[0] for refusal in refusals if refusal.remedies]
    if len(first) == len(refusals) and all(is_part(text) for text in first):
        return [_command(first)]
    return [_command([text]) for refusal in refusals for text in refusal.remedies]


def _command(parts: list[str]) -> str:
    """Return one line that does all parts."""
    folders = [text for text in parts if text.startswith(GO_TO)]
    options = ", ".join(text for text in parts if text not in folders)
    if not folders:
        return with_options(options)
    return " && ".join([*folders, with_options(options or LEAVE_OUT)])


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
