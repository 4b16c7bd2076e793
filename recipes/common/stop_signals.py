"""Signals that ask for an early end: SIGUSR1 (the time limit comes near), SIGTERM (preemption)."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGUSR1, signal.SIGTERM)


class Stop:
    """Whether this rank has been asked to stop. The step in flight is finished first."""

    def __init__(self) -> None:
        self.signal = ""

    def __bool__(self) -> bool:
        return bool(self.signal)

    def listen(self) -> None:
        """From now on only note the signals, which would end the process otherwise."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name
