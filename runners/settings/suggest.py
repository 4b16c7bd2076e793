"""A command with the changes of a remedy: as it is to be typed, and as settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.command_line import ENVIRONMENT, FLAG, CommandLine, without_secret
from ..core.remedy import ADVICE, LAUNCH, Remedy, Value, argument_words, option_words
from .config import TYPES, Config, ConfigLayer, merged
from .table import LISTS, SETTINGS

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
    shown = list(value) if remedy.kind == LAUNCH else ["kind", "text", "does"]
    return {name: value[name] for name in shown if name != "does" or remedy.does}


def resolved(remedies: Iterable[Remedy], typed: CommandLine) -> Iterator[Remedy]:
    for remedy in remedies:
        advice = remedy.kind == ADVICE or bool(_in_files(remedy, typed))
        yield Remedy(ADVICE if advice else "command", text(remedy, typed), does=remedy.does)


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


def flags(remedy: Remedy, typed: CommandLine) -> Mapping[str, Any]:
    """Return the settings of the command that a remedy suggests, as click gives them."""
    options = (*remedy.options, *kept(remedy, typed))
    return _with_options({}, (pair for pair in options if pair[0] in SETTINGS))


def changed(config: Config, remedy: Remedy) -> Config:
    """Return merged settings with a remedy's options, and without those that it leaves out."""
    options = dict(remedy.options)
    gone = {*remedy.leave_out, *(name for name in options if name not in LISTS)}
    values = [{n: v for n, v in layer.values.items() if n not in gone} for layer in config.own]
    layers = [replace(layer, values=left) for layer, left in zip(config.own, values)]
    layers[-1:] = [ConfigLayer(FLAG, _with_options(values[-1] if values else {}, remedy.options))]
    return merged(config.below, config.profile, layers)


def _with_options(
    values: Mapping[str, Any], options: Iterable[tuple[str, Value]]
) -> dict[str, Any]:
    """Return the values of flags with more options; a list is added to."""
    flags = dict(values)
    for name, value in options:
        if name in LISTS:
            flags[name] = [*(flags.get(name) or ()), str(value)]
        else:
            flags[name] = TYPES[SETTINGS[name].kind](value)
    return flags
