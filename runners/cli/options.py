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


def without(names: Collection[str]) -> Decorator:
    """Add an option for each setting but those named; one that is not given is None, or empty."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(SETTINGS.values()):
            function = function if setting.name in names else _option(setting)(function)
        return function

    return add


setting_options = without(())


def _option(setting: Setting) -> Decorator:
    long = f"--{setting.name}"
    shared: dict[str, Any] = {"cls": SettingOption, "group": GROUPS[setting.group]}
    if setting.kind == "switch":
        words = (*setting.words, f"{long}/--no-{setting.name}")
        return click.option(*words, default=None, help=setting.help, **shared)
    return click.option(
        *(*setting.words, long, parameter(setting.name)),
        type=_type(setting),
        multiple=setting.kind == "list",
        metavar=setting.metavar or None,
        help=setting.help,
        **shared,
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
    settings = {known[given]: value for given, value in values.items() if given in known}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in settings.items()}


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, by name, in the order of the table."""
    found = flags(values)
    return {name: found[name] for name in SETTINGS if found.get(name) not in (None, [])}
