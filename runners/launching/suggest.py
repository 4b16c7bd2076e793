"""Remedies as commands to type: the command line that was typed, with the changes of a remedy."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..core.command_line import ENVIRONMENT, FLAG, CommandLine, without_secret
from ..core.diagnosis import Diagnosis
from ..core.errors import Refused, RunnerError
from ..core.remedy import ADVICE, LAUNCH, Remedy, Value, argument_words, option_words
from ..planning import search
from ..settings.table import LISTS

CHECKED_BY = {"plan": "launch"}  # what was only looked at is then to be launched


def text(remedy: Remedy, typed: CommandLine) -> str:
    """Return what to type, or advice; `typed` is the command line that a launch changes.

    Only what was typed is typed again: files and variables bring the rest, and the environment the
    value of a password.
    """
    if remedy.kind != LAUNCH:
        return str(remedy)
    if not typed.name:
        return _of_any_launch(remedy)
    folder = remedy.cwd or (typed.cwd if typed.cwd != os.getcwd() else "")
    change_folder = [shlex.join(["cd", folder])] if folder else []
    parts = [*filter(None, [remedy.text]), *change_folder, shlex.join(argv(remedy, typed))]
    return "; then ".join([*_in_files(remedy, typed), " && ".join(parts)])


def _of_any_launch(remedy: Remedy) -> str:
    """Return what to change in a command that is not known."""
    options = replace(remedy, text="", cwd="")
    again = "launch again" if options == Remedy() else f"launch again with: {options}"
    return "; then ".join(filter(None, [remedy.text, again]))


def argv(remedy: Remedy, typed: CommandLine) -> list[str]:
    """Return the words of the command line with a remedy's changes."""
    gone = [setting for setting in typed.settings if setting.name in remedy.leave_out]
    variables = dict.fromkeys(setting.where for setting in gone if setting.origin == ENVIRONMENT)
    unset = [f"--unset={name}" for name in variables]
    trainer, *args = remedy.trainer or (typed.trainer, *typed.args)
    args = list(arguments(remedy, args))
    return [
        *(["env", *unset] if unset else []),
        *("runner", CHECKED_BY.get(typed.name, typed.name)),
        *(word for pair in (*remedy.options, *kept(remedy, typed)) for word in option_words(*pair)),
        *filter(None, [trainer]),
        *(["--", *args] if args else []),
    ]


def as_json(remedy: Remedy, typed: CommandLine) -> dict[str, Any]:
    """Return a remedy for programs: its kind, what to type, and of a launch what it changes."""
    value = {**vars(remedy), "text": text(remedy, typed), "before": remedy.text}
    shown = list(value) if remedy.kind == LAUNCH else ["kind", "text"]
    return {name: value[name] for name in shown}


def resolved(remedies: Iterable[Remedy], typed: CommandLine) -> Iterator[Remedy]:
    for remedy in remedies:
        advice = remedy.kind == ADVICE or bool(_in_files(remedy, typed))
        yield Remedy(ADVICE if advice else "command", text(remedy, typed))


def refused(refusals: Sequence[Diagnosis], kind: type[RunnerError] = Refused) -> RunnerError:
    """Return several reasons as one error."""
    first, *others = refusals
    evidence = [first.evidence]
    for refusal in others:
        evidence += [f"also: {refusal.what}", refusal.evidence]
    text = "\n".join(line for line in evidence if line)
    error = kind(first.what, text, search.combined(refusals), first.id)
    error.faults = tuple(refusals)
    return error


def kept(remedy: Remedy, typed: CommandLine) -> Iterator[tuple[str, Value]]:
    """Yield the options that stay: not those that are set again, though a list is added to."""
    changed = {name for name, _ in remedy.options} - LISTS
    variables = {_variable(value) for name, value in remedy.options if name == "env"}
    flags = [(setting.name, setting.value) for setting in typed.settings if setting.origin == FLAG]
    for name, value in (*flags, *typed.switches):
        again = name == "env" and _variable(value) in variables
        if name not in changed and name not in remedy.leave_out and not again:
            yield name, without_secret(str(value)) if name == "env" else value


def _variable(value: Value) -> str:
    return str(value).partition("=")[0]


def arguments(remedy: Remedy, args: Sequence[str]) -> Iterator[str]:
    """Yield the trainer's arguments, those that the remedy sets at their end."""
    names = [name for name, _ in remedy.arguments]
    skip = False
    for word in args:
        if not skip and word.partition("=")[0] not in names:
            yield word
        skip = not skip and word in names
    for name, value in remedy.arguments:
        yield from argument_words(name, value)


def _in_files(remedy: Remedy, typed: CommandLine) -> list[str]:
    """Return what has to go from files first, which no option takes back."""
    gone = [setting for setting in typed.settings if setting.name in remedy.leave_out]
    files = [setting for setting in gone if setting.origin not in (FLAG, ENVIRONMENT)]
    return list(dict.fromkeys(f"take {setting.name} out of {setting.where}" for setting in files))
