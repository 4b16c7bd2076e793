"""A command line of `runner` as values: settings with their origins, and the trainer (job.json)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .remedy import Value

# Where a setting came from; `Given.where` names the file, the variable, the recipe or the site.
# COMMAND is what a command brings by itself, such as the time of a session.
DEFAULT, COMMAND, PRESET, SITE = "default", "own", "preset", "site"
USER, PROJECT, ENVIRONMENT, FLAG = "user", "project", "environment", "flag"

# NAME=VALUE, as the value of --env, with a name that speaks of a secret.
SECRET = re.compile(
    r"((?:--env=)?(?:\w*_)?(?:TOKEN|SECRET|PASSWORD|CREDENTIALS?|KEY)(?:_\w*)?)=.*", re.DOTALL
)


class Given(NamedTuple):
    """A setting in force and its origin; a list has one for each of its items."""

    name: str
    value: Value
    origin: str = FLAG
    where: str = ""


@dataclass(frozen=True)
class CommandLine:
    """What is to be typed to have the same once more.

    `switches` are options of the command that are no settings, such as --wait. `args` are the
    trainer's, or what else stands after `--`. `cwd` is the folder in which it was typed, and
    `words` is what was typed: for display only.
    """

    name: str = "launch"
    settings: tuple[Given, ...] = ()
    switches: tuple[tuple[str, Value], ...] = ()
    trainer: str = ""
    args: tuple[str, ...] = ()
    cwd: str = ""
    words: tuple[str, ...] = ()

    def values(self, name: str) -> list[Value]:
        return [setting.value for setting in self.settings if setting.name == name]

    def text(self, name: str) -> str:
        """Return a setting that is no list; "" when it has no value."""
        return next((str(value) for value in self.values(name)), "")

    @property
    def secrets(self) -> list[str]:
        """The variables whose secret value stands on the command line, where all users see it."""
        given = map(str, self.values("env"))
        return [name for variable in given if (name := without_secret(variable)) != variable]


def without_secret(word: str) -> str:
    """Return a word of a command line; of a secret NAME=VALUE the name alone.

    `--env NAME` takes the value from the environment.
    """
    secret = SECRET.fullmatch(word)
    return secret[1] if secret else word


def read(value: Mapping[str, Any]) -> CommandLine:
    """Return the command line of a record in JSON; raise TypeError for what is none."""
    return CommandLine(
        **{
            **value,
            "settings": tuple(Given(**setting) for setting in value["settings"]),
            "switches": tuple((name, on) for name, on in value["switches"]),
            "args": tuple(value["args"]),
            "words": tuple(value["words"]),
        }
    )


def as_json(command_line: CommandLine) -> dict[str, Any]:
    return {
        **vars(command_line),
        "settings": [setting._asdict() for setting in command_line.settings],
    }
