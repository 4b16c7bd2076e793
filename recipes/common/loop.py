"""Counters of the training loop: step, epoch, samples taken, and the clock of the epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .checkpoints import Position
from .shards import Batch, Shards


class Loop:
    """Counts from `start` to the end of `epochs` epochs, or to step `max_steps`."""

    def __init__(self, shards: Shards, start: Position, epochs: int, max_steps: int | None) -> None:
        self.shards = shards
        self.step, self.epoch, self.taken = start.step, start.epoch, start.taken
        self.loss_before, self.seconds_before = start.loss_sum, start.seconds
        self.first_step = start.step
        left = shards.steps_left(start.epoch, start.taken, epochs)
        self.last_step = min(start.step + left, max_steps or start.step + left)
        self.began = time.perf_counter()

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left, the first one perhaps begun already."""
        while self.more:
            self.began = time.perf_counter()
            yield self.epoch
            if self.whole:
                self.epoch, self.taken = self.epoch + 1, 0
                self.loss_before = self.seconds_before = 0.0

    def batches(self) -> Iterator[Batch]:
        """Yield the steps that are left of this epoch."""
        for batch in self.shards.batches(self.epoch, self.taken):
            if self.step == self.last_step:
                return
            yield batch

    def steps_of_epoch(self) -> int:
        """Count the steps that are left of this epoch."""
        left = self.shards.steps_left(self.epoch, self.taken, self.epoch)
        return min(left, self.last_step - self.step)

    def step_done(self, batch: Batch) -> None:
        """Count a step."""
        self.step, self.taken = self.step + 1, batch.taken

    @property
    def whole(self) -> bool:
        """Whether all steps of the epoch are done."""
        return self.taken >= self.shards.whole

    @property
    def more(self) -> bool:
        """Whether steps are left, in this epoch or in later ones."""
        return self.step < self.last_step

    def seconds(self) -> float:
        """Return the seconds of training in this epoch so far."""
        return self.seconds_before + time.perf_counter() - self.began

    def position(self, loss_sum: float, seconds: float) -> Position:
        """Return what a checkpoint says; `loss_sum` is that of all ranks in this epoch so far."""
        if self.whole:
            return Position(self.step, self.epoch + 1)
        return Position(self.step, self.epoch, self.taken, loss_sum, seconds)
