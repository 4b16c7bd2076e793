"""Watches from the shim whether the trainer initializes a process group in time."""

from __future__ import annotations

import time

from ...contract.enums import GATED
from ...contract.world_causes import INDEPENDENT
from ..problems import Problem
from .gate_settings import GateSettings
from .reports import Inbox
from .world_messages import never_formed

SECONDS_TO_A_WORLD = 120.0  # of imports and reading; after that a rank without a world is told of


class WorldWatch:
    """Whether the trainer has initialized a process group, as the job requires."""

    def __init__(self, settings: GateSettings, inbox: Inbox) -> None:
        self.settings, self.inbox = settings, inbox
        self.began, self.told = time.monotonic(), False

    @property
    def missing(self) -> bool:
        """Whether a process group is required, and there is none."""
        return self.settings.check and self.settings.ranks > 1 and not self.inbox.formed

    def poll(self) -> None:
        """Print a warning once if the process group is late, on one rank of each node."""
        if self.told or time.monotonic() - self.began < SECONDS_TO_A_WORLD:
            return
        self.told = True
        task, minutes = self.settings.task, f"{SECONDS_TO_A_WORLD / 60:.0f} min"
        if not self.missing or task.local_rank:
            return
        if waits := [framework for framework in GATED if self.inbox.waits_in(framework)]:
            where = " and ".join(waits)
            text = f"rank {task.name} waits for the other ranks, after {minutes} in {where}"
        else:
            text = (
                f"warning: rank {task.name}: no process group was initialized after {minutes}: "
                f"each of the {task.size} ranks may be training alone. If so the job will end as "
                f"failed ({INDEPENDENT})"
            )
        print(f"runner: {text}", flush=True)

    def never_formed(self) -> Problem:
        """Print that the trainer ended without a process group; return the problem."""
        text, problem = never_formed(self.settings, self.inbox.alone, self.inbox.imports)
        print(text, flush=True)
        return problem
