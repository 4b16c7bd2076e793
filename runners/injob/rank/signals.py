"""Signals: what the launcher sends to a task goes on to its trainer, from the first moment on.

They wait until there is a trainer (`hold`). A trainer decides what it does with them; this parent
sets no time limit, since who sent the signal has one (Slurm: GraceTime, KillWait, the time limit).
Except where another rank has failed: a trainer that waits for it, in an MPI call without end, can
neither save nor stop, and Slurm would wait KillWait seconds for it (30 by default) on all nodes.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Callable

RELAYED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def hold() -> None:
    """Let signals wait until `let_in` or a Relay takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, RELAYED)


def let_in() -> None:
    """Take signals as usual again: those that waited come now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, RELAYED)


class Relay:
    """Passes signals on to the process `child`, and remembers which came.

    `others_failed` tells whether a rank has failed; then SIGTERM is an end, `ended`.
    """

    def __init__(self, child: int, others_failed: Callable[[], bool]) -> None:
        self.child, self.others_failed = child, others_failed
        self.ended = False
        self.seen: set[int] = set()
        for number in RELAYED:
            signal.signal(number, self._pass_on)
        let_in()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.seen.add(number)
        self.ended = self.ended or (number == signal.SIGTERM and self.others_failed())
        os.kill(self.child, signal.SIGKILL if self.ended else number)

    def stop(self) -> None:
        """Ignore signals, before the child is waited for and its number may be another's."""
        for number in RELAYED:
            signal.signal(number, signal.SIG_IGN)
