"""The command that was typed, with other options: what a refusal offers to type instead."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

from ..core.errors import Refused
from ..core.model import Refusal
from ..core.remedy import GO_TO, LEAVE_OUT, are_options, is_part
from ..settings.table import SETTINGS

# Switches of the commands themselves, which are no settings.
SWITCHES = ("--force", "--dry-run", "--dryrun", "--wait", "--follow", "--parsable", "--json")
OF_THEIR_OWN = ("doctor", "shell", "jupyter", "tensorboard")
COMMANDS = ("launch", "plan", *OF_THEIR_OWN)
ARGUMENTS = "-- "  # before arguments of the trainer, as on the command line


def with_options(options: str, typed: Sequence[str] | None = None) -> str:
    """Return the whole command with `options` in it; `options` alone when it is not one of ours.

    A remedy that does not begin with a dash, or with LEAVE_OUT, is a command of its own. After
    ARGUMENTS come `--name value` pairs for the trainer, instead of those it was given.
    """
    words = list(sys.argv[1:] if typed is None else typed)
    if not are_options(options) or not words or words[0] not in COMMANDS:
        return options
    if options.startswith(ARGUMENTS):
        return _with_arguments(options[len(ARGUMENTS) :].split(), words)
    end = words.index("--") if "--" in words else len(words)
    own = _without_variables(options, words[1:end])
    added = " ".join(part for part in options.split(", ") if not part.startswith(LEAVE_OUT))
    kept = shlex.join([*_without(_changed(options), own), *words[end:]])
    command = f"runner {words[0]}" if words[0] in OF_THEIR_OWN else "runner launch"
    return " ".join(part for part in (command, added, kept) if part)


def _with_arguments(pairs: list[str], words: list[str]) -> str:
    end = words.index("--") if "--" in words else len(words)
    names, kept, skip = pairs[::2], [], False
    for word in words[end + 1 :]:
        if not skip and word.partition("=")[0] not in names:
            kept.append(word)
        skip = not skip and word in names
    return shlex.join(["runner", *words[:end], "--", *kept, *pairs])


def refused(refusals: Sequence[Refusal]) -> Refused:
    """Return the error for a plan that cannot work, with the commands that can."""
    first, *others = refusals
    evidence = [first.evidence]
    for other in others:
        evidence += [f"also: {other.what}", other.evidence]
    text = "\n".join(line for line in evidence if line)
    return Refused(first.what, text, "\n".join(remedies(refusals)))


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
        elif word[:2] not in flags:  # -N2
            kept.append(word)
    return kept


def _changed(options: str) -> list[str]:
    """Return the options whose old values go: not those of a list, to which one is added."""
    names = []
    for part in options.split(", "):
        for word in (word.partition("=")[0] for word in part.split() if word.startswith("-")):
            setting = SETTINGS.get(word.lstrip("-"))
            if part.startswith(LEAVE_OUT) or setting is None or setting.kind != "list":
                names.append(word)
    return names


def _without_variables(options: str, words: list[str]) -> list[str]:
    """Return the words without those --env that set what `options` sets anew."""
    names = re.findall(r"--env (\w+)=", options)
    kept: list[str] = []
    for word in words:
        if kept and kept[-1] == "--env" and word.partition("=")[0] in names:
            kept.pop()
        elif not any(word.startswith(f"--env={name}=") for name in names):
            kept.append(word)
    return kept


def _spellings(option: str) -> list[str]:
    name = option.lstrip("-").removeprefix("no-") if option.startswith("--no-") else option[2:]
    setting = SETTINGS.get(name)
    words = setting.words if setting else ()
    return [f"--{name}", f"--no-{name}", *words]


def _is_switch(name: str) -> bool:
    if name in SWITCHES:
        return True
    for setting in SETTINGS.values():
        if name in (*setting.words, f"--{setting.name}", f"--no-{setting.name}"):
            return setting.kind == "switch"
    return False
