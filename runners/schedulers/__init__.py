"""Schedulers: submit a script, ask for states, cancel. One module each, chosen by name."""

from __future__ import annotations

from types import ModuleType

from . import local, slurm

SCHEDULERS: dict[str, ModuleType] = {"slurm": slurm, "local": local}
