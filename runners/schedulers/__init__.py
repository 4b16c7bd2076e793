"""Schedulers: what they lack, their script's lines, submit, ask for states, cancel.

One module each, which is a `protocol.Scheduler`; adding one is that module and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import allocation, cobalt, local, pbs, slurm
from .protocol import Capabilities, Scheduler

# In the order in which they are looked for: Cobalt has a qsub too.
SCHEDULERS: Mapping[str, Scheduler] = {
    "slurm": slurm,
    "cobalt": cobalt,
    "pbs": pbs,
    "allocation": allocation,
    "local": local,
}


def capabilities(name: str) -> Capabilities:
    """Return what a scheduler can do, by its name."""
    return SCHEDULERS[name].CAPABILITIES
