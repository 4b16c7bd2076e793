"""Remedies as values: the same command with changes, another command, or advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Union

Value = Union[str, int, float, bool]
LAUNCH, COMMAND, ADVICE = "launch", "command", "advice"


@dataclass(frozen=True)
class Remedy:
    """One remedy, of a `kind`: launch, command or advice.

    A launch is the same command line once more: with `options` set and those named in `leave_out`
    taken away (of a list, `options` adds), with the `arguments` of the trainer in place of those it
    had under these names, with another `trainer` (and its arguments), from within the folder `cwd`,
    after `text` (a line for the shell) has been run. Of the other kinds `text` is all. One of
    several may say what it `does` that the others do not.
    """

    kind: str = LAUNCH
    text: str = ""
    options: tuple[tuple[str, Value], ...] = ()
    leave_out: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    trainer: tuple[str, ...] = ()
    cwd: str = ""
    does: str = ""

    def __str__(self) -> str:
        """Return what it changes, for where the whole command is not known."""
        if self.kind != LAUNCH:
            return self.text
        set_ = [shlex.join(option_words(name, value)) for name, value in self.options]
        gone = [f"leave out --{name}" for name in self.leave_out]
        arguments = [word for pair in self.arguments for word in argument_words(*pair)]
        words = [", ".join([*([" ".join(set_)] if set_ else []), *gone])]
        words += [shlex.join(["--", *arguments])] if arguments else []
        same = " ".join(filter(None, words)) or "the same command once more"
        change_folder = [f"cd {shlex.quote(self.cwd)}"] if self.cwd else []
        return " && ".join([*filter(None, [self.text]), *change_folder, same])


def change(
    settings: Mapping[str, Value | Sequence[str]] | None = None,
    *,
    leave_out: Iterable[str] = (),
    arguments: Mapping[str, object] | None = None,
    trainer: Sequence[str] = (),
    cwd: str = "",
    first: str = "",
    **options: Value | Sequence[str],
) -> Remedy:
    """Return the remedy that types the same command with other options: `change(nodes=2)`.

    An option's name has underscores for dashes, except in `settings`; `first` is a line for the
    shell to run before.
    """
    named = {**(settings or {}), **{name.replace("_", "-"): v for name, v in options.items()}}
    return Remedy(
        LAUNCH,
        first,
        tuple(
            (name, item)
            for name, value in named.items()
            for item in ([value] if isinstance(value, (str, int, float)) else value)
        ),
        tuple(leave_out),
        tuple((name, str(value)) for name, value in (arguments or {}).items()),
        tuple(trainer),
        cwd,
    )


def command(*words: object) -> Remedy:
    """Return the remedy that is one command, given as its words."""
    return Remedy(COMMAND, shlex.join(map(str, words)))


def shell_line(text: str) -> Remedy:
    """Return the remedy that is a line for the shell, quoted already."""
    return Remedy(COMMAND, text)


def advice(text: str) -> Remedy:
    """Return what to do in words: nothing that could be typed as it stands."""
    return Remedy(ADVICE, text)


def together(remedies: Sequence[Remedy]) -> Remedy:
    """Return one remedy that does what several do, all of them launches."""
    return reduce(_both, remedies)


def _both(first: Remedy, second: Remedy) -> Remedy:
    return Remedy(
        LAUNCH,
        " && ".join(filter(None, (first.text, second.text))),
        tuple(dict.fromkeys((*first.options, *second.options))),
        tuple(dict.fromkeys((*first.leave_out, *second.leave_out))),
        (*first.arguments, *second.arguments),
        second.trainer or first.trainer,
        second.cwd or first.cwd,
    )


def option_words(name: str, value: Value) -> list[str]:
    """Return an option as it is typed; True and False are those of a switch."""
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return argument_words(f"--{name}", f"{value:g}" if isinstance(value, float) else str(value))


def argument_words(name: str, value: str) -> list[str]:
    """Return a name and its value; in one word where the value could be taken for a name."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
