"""Makes click options from the table of settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Callable

import click

from ..settings.table import GROUPS, SETTINGS, Setting


class SettingOption(click.Option):
    """An option of a setting, which has a heading in the help."""

    def __init__(self, *words: Any, group: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self.group = group


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each setting; a flag that is not given is None, or empty for a list."""
    for setting in reversed(SETTINGS.values()):
        function = _option(setting)(function)
    return function


def without(names: Collection[str]) -> Decorator:
    """Add an option for each setting but those named."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(SETTINGS.values()):
            function = function if setting.name in names else _option(setting)(function)
        return function

    return add


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, by name, of those that the command has."""
    found = {name: values.get(parameter(name)) for name in SETTINGS}
    told = {name: value for name, value in found.items() if value not in (None, ())}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in told.items()}


def _option(setting: Setting) -> Decorator:
    words = (*setting.words, f"--{setting.name}")
    if setting.kind == "switch":
        return click.option(
            *setting.words,
            f"--{setting.name}/--no-{setting.name}",
            cls=SettingOption,
            group=GROUPS[setting.group],
            default=None,
            help=setting.help,
        )
    return click.option(
        *words,
        parameter(setting.name),
        cls=SettingOption,
        group=GROUPS[setting.group],
        type=_type(setting),
        multiple=setting.kind == "list",
        metavar=setting.metavar or None,
        help=setting.help,
    )


def _type(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices)
    return {"int": int, "number": float}.get(setting.kind, str)


def parameter(name: str) -> str:
    """Return the Python name of a setting's parameter."""
    return name.replace("-", "_")


def flags(values: dict[str, Any]) -> dict[str, Any]:
    """Return click's parameters as settings by name, in the order in which they were typed.

    Lists are lists, and what was not given is None.
    """
    known = {parameter(name): name for name in SETTINGS}
    found = {known[given]: value for given, value in values.items() if given in known}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}
