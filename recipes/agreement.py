"""Whether all ranks go on: a signal, a loss that is no number or broken data of one ends all.

The ranks exchange that twice a second, before each checkpoint and after each epoch: each exchange
takes milliseconds, and reading a loss waits for the device. Standard library only.
"""

from __future__ import annotations

import math
import signal
import time
from argparse import Namespace
from typing import Any

from recipes.device import Framework
from recipes.distributed import Failed, Ranks, UserError, exchange

AGREE_SECONDS = 0.5  # between exchanges
SIGNALS = signal.SIGUSR1, signal.SIGTERM  # the time limit comes near; preemption


class Agreement:
    """What happened on this rank since the ranks last agreed, and when they agree next."""

    signal = ""  # that asked this rank to stop
    first_step_unix_time = math.nan

    def __init__(self, ranks: Ranks, framework: Framework) -> None:
        self.ranks, self.framework = ranks, framework
        self.step_seconds: list[float] = []  # of all steps
        self.losses: list[Any] = []  # since the ranks last agreed, and the marks of its steps
        self.marks: list[Any] = []

    def listen(self) -> None:
        """Note the signals from now on, instead of ending the process."""

        def note(number: int, frame: Any) -> None:
            self.signal = signal.Signals(number).name

        for number in SIGNALS:
            signal.signal(number, note)

    def begin(self, step: int) -> None:
        """Start an epoch after a step; the ranks agree after its first one."""
        self.agreed_at, self.agreed_step, self.agree_at = time.perf_counter(), step, step + 1
        self.losses, self.marks = [], [self.framework.mark()]

    def step_done(self, loss: Any) -> None:
        """Note the loss of a step, and when it was done."""
        self.losses.append(loss)
        self.marks.append(self.framework.mark())

    def is_due(self, step: int) -> bool:
        return step >= self.agree_at

    def first_bad(self, step: int) -> tuple[float, int]:
        """Return the first loss that is no number, and its step; the last step was `step`."""
        losses = [float(loss) for loss in self.losses]
        place = next((n for n, loss in enumerate(losses) if not math.isfinite(loss)), 0)
        return losses[place], step - len(losses) + place + 1

    def reach(self, step: int, failure: UserError | None) -> str:
        """Exchange who has to stop or has failed; return the signal. A failure ends all ranks."""
        if math.isnan(self.first_step_unix_time):
            self.first_step_unix_time = time.time()
        for pair in zip(self.marks, self.marks[1:]):
            self.step_seconds.append(self.framework.elapsed(*pair))
        steps, seconds = step - self.agreed_step, time.perf_counter() - self.agreed_at
        everyone = exchange(self.ranks, (self.signal, seconds / max(1, steps)), failure)
        stride = int(AGREE_SECONDS / max(pace for _, pace in everyone))
        self.begin(step)
        self.agree_at = step + max(1, stride)
        return next((name for name, _ in everyone if name), "")


def diverged(args: Namespace, loss: float, where: str) -> Failed:
    """Return the error of a loss that is no number."""
    return Failed(
        f"training diverged: the loss is {loss} in {where}.\n"
        f"Try a --base-lr below {args.base_lr:g}, or more --warmup-epochs."
    )
