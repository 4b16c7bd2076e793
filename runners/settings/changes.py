"""The settings of a command that is typed again with other options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.command_line import FLAG
from ..core.remedy import Remedy
from .config import Config, ConfigLayer, merged
from .table import LISTS, SETTINGS

KINDS: dict[str, Any] = {"int": int, "number": float, "switch": bool}


def changed(config: Config, remedy: Remedy) -> Config:
    """Return the settings with a remedy's options, and without those that it leaves out."""
    options = dict(remedy.options)
    gone = {*remedy.leave_out, *(name for name in options if name not in LISTS)}
    kept = [{n: v for n, v in layer.values.items() if n not in gone} for layer in config.own]
    layers = [replace(layer, values=values) for layer, values in zip(config.own, kept)]
    flags = dict(kept[-1]) if kept else {}
    for name, value in remedy.options:
        if name in LISTS:
            flags[name] = [*(flags.get(name) or ()), str(value)]
        else:
            flags[name] = KINDS.get(SETTINGS[name].kind, str)(value)
    layers[-1:] = [ConfigLayer(FLAG, flags)]
    return merged(config.below, config.profile, layers)
