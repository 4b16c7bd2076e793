"""A shim's part: it samples its own trainer, and tells rank 0's shim what that used."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from . import processes
from .sampler import Sampler, samples_gpus, seconds_between_reports

if TYPE_CHECKING:
    from ..gate import GateSettings


class Use:
    """What the process `child` and its children use; `tell` passes a report on."""

    def __init__(
        self, terms: GateSettings, child: int, tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self.task, self.workers, self.child, self.tell = terms.task, terms.workers, child, tell
        first = self.task.local_rank == 0
        ranks = self.task.local_size
        gpus = samples_gpus(terms.gpus, os.environ, first, ranks)
        self.sampler = Sampler(child, ranks, first, gpus)
        self.sampler.start()
        self.pause = seconds_between_reports(self.task.size)
        self.told = time.monotonic()

    def look(self) -> None:
        """Tell it, if it is time to."""
        if time.monotonic() - self.told >= self.pause:
            self._tell()

    def waited_for(self) -> int:
        """Wait for the child, which has ended; return its status. Tell what it used."""
        # The kernel adds what a child has read and written to its parent's count, then.
        before = processes.files_of("self")
        _, status, used = os.wait4(self.child, 0)
        after = processes.files_of("self")
        grown = [b - a for a, b in zip(before, after)] if before and after else None
        self.sampler.end(used, (grown[0], grown[1], grown[2], grown[3]) if grown else None)
        self._tell()
        return status

    def _tell(self) -> None:
        self.told = time.monotonic()
        self.tell({"host": self.task.host, "workers": self.workers, **self.sampler.report()})
