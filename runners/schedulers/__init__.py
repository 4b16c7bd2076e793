"""Schedulers: what they lack, their script's lines, submit, ask for states, cancel.

One module each, chosen by name.
"""

from __future__ import annotations

from types import ModuleType

from . import allocation, cobalt, local, pbs, slurm

SCHEDULERS: dict[str, ModuleType] = {
    "slurm": slurm,
    "allocation": allocation,
    "pbs": pbs,
    "cobalt": cobalt,
    "local": local,
}
