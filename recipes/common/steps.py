"""The steps of a run: which rank learns from which samples, at what rate, and how far it is."""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recipes.errors import UserError

#: Where `step` divides the rate by ten: after 30, 60 and 80 of 90 epochs (Goyal et al.).
STEPS = (30 / 90, 60 / 90, 80 / 90)
Indices = NDArray[np.int64]
#: Test samples at once: bounds the memory, changes no result.
EVALUATION_BATCH = 1000


@dataclass(frozen=True)
class Batch:
    """One step of one rank: `parts` has the samples of each backward pass, some may be empty.

    All ranks together have `total` samples in this step, of which `taken` of the epoch are then
    done.
    """

    parts: tuple[Indices, ...]
    total: int
    taken: int
    size: int

    @property
    def before(self) -> int:
        """Samples of the epoch that all ranks had done before this step."""
        return self.taken - self.total

    @property
    def own(self) -> int:
        """Number of this rank's samples in this step."""
        return sum(len(part) for part in self.parts)

    @property
    def weight(self) -> float:
        """Factor for a *sum* of losses, so that the mean over ranks is the mean over samples.

        Ranks may have unequally many: the mean of their means would weigh samples differently.
        """
        return self.size / self.total


class Shards:
    """The training set, shuffled anew each epoch, and this rank's share of each step.

    All ranks shuffle alike (same seed, same epoch). Each step takes the next samples of that order
    for all ranks together, `batch_size` for each rank and backward pass, dealt by *global* rank.
    So N ranks with batches of b see in each step what one rank with batches of N b sees. The last
    step of an epoch may be short, unevenly so; a rank may then have nothing, and still takes part.

    `drop_last` leaves a short last step out, for models that normalise over their batch.
    Raises `UserError` when there are fewer samples than ranks.
    """

    def __init__(
        self, count: int, rank: int, size: int, seed: int, *, batch_size: int, passes: int = 1,
        drop_last: bool = False,
    ) -> None:  # fmt: skip
        if count < size:
            raise UserError(f"{count} training samples for {size} ranks: each needs at least one")
        self.count, self.rank, self.size, self.seed = count, rank, size, seed
        self.batch_size, self.passes = batch_size, passes
        self.per_step = batch_size * passes * size
        self.whole = count // self.per_step * self.per_step if drop_last else count
        if self.whole == 0:  # fewer samples than one step of all ranks takes
            self.whole = count

    @property
    def steps(self) -> int:
        """Number of steps in an epoch, the same on every rank."""
        return -(-self.whole // self.per_step)

    def steps_left(self, epoch: int, taken: int, epochs: int) -> int:
        """Count the steps from `taken` samples into `epoch` to the end of the last of `epochs`."""
        return -(-(self.whole - taken) // self.per_step) + (epochs - epoch) * self.steps

    def batches(self, epoch: int, taken: int = 0) -> Iterator[Batch]:
        """Yield the steps of an epoch (counted from 1), after the first `taken` samples of it.

        The order depends on seed and epoch alone: after a restart, also with another number of
        ranks, every sample of the epoch is still seen once.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(self.count)[: self.whole]
        for start in range(taken, self.whole, self.per_step):
            step = order[start : start + self.per_step]
            mine = step[self.rank :: self.size]
            parts = tuple(
                mine[i * self.batch_size : (i + 1) * self.batch_size] for i in range(self.passes)
            )
            yield Batch(parts, len(step), start + len(step), self.size)


def deal(
    args: Namespace, hvd: Any, count: int, what: str = "samples", *, whole_steps: bool = False
) -> Shards:
    """Return this rank's shards of `count` samples, by its number among all ranks.

    `whole_steps` leaves a short last step out. Raises `UserError` for too few samples.
    """
    shards = Shards(
        count, hvd.rank(), hvd.size(), args.seed, batch_size=args.batch_size,
        passes=args.batches_per_allreduce, drop_last=whole_steps,
    )  # fmt: skip
    if whole_steps and count < shards.per_step:
        raise UserError(
            f"{count} training {what} are fewer than one step of all ranks takes "
            f"({shards.per_step}): give a smaller --batch-size"
        )
    return shards


def evaluation_share(count: int, rank: int, size: int) -> Indices:
    """Return the test samples of this rank: over all ranks each sample exactly once.

    The shares may differ by one and may be empty, so evaluate with one reduction of sums at the
    end, never with one per batch.
    """
    return np.arange(rank, count, size)


def chunks(indices: Indices, length: int) -> list[Indices]:
    """Cut `indices` into pieces of `length`, the last one shorter; nothing gives no piece."""
    return [indices[i : i + length] for i in range(0, len(indices), length)]


@dataclass(frozen=True)
class Position:
    """How far a run has come: `step` steps, of epoch `epoch` (counted from 1) `taken` samples.

    `loss_sum` and `seconds` are those of that epoch so far, over all ranks.
    """

    step: int = 0
    epoch: int = 1
    taken: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0


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
        for batch in self.shards.batches(self.epoch, self.taken):
            if self.step == self.last_step:
                return
            yield batch

    def parts(self, epochs: int) -> Iterator[tuple[int, Indices]]:
        """Yield epoch and samples of all backward passes from here to the end of `epochs`."""
        first, taken = self.epoch, self.taken
        for epoch in range(first, epochs + 1):
            for batch in self.shards.batches(epoch, taken if epoch == first else 0):
                yield from ((epoch, part) for part in batch.parts)

    def steps_of_epoch(self) -> int:
        left = self.shards.steps_left(self.epoch, self.taken, self.epoch)
        return min(left, self.last_step - self.step)

    def step_done(self, batch: Batch) -> None:
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


def learning_rate(args: Namespace, size: int, progress: float) -> float:
    """Return the rate after `progress` epochs: from the base rate up to `scale` times it.

    Reached after `--warmup-epochs`, constant then: at once, it makes training diverge (Goyal et
    al. 2017, arXiv:1706.02677).
    """
    reached = 1.0 if progress >= args.warmup_epochs else progress / args.warmup_epochs
    base: float = args.base_lr
    return base * (1 + (scale(args, size) - 1) * reached)


def scale(args: Namespace, size: int) -> int:
    """Return by how much the rate grows: as much as a step's samples, compared to one rank's pass.

    Adasum adapts to the number of ranks by itself (Maleki et al. 2020, arXiv:2006.02924).
    """
    passes: int = args.batches_per_allreduce
    return passes if args.adasum else passes * size


def decay(schedule: str, share: float) -> float:
    """Return the factor for the rate after `share` of the training; see `options.SCHEDULES`."""
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return 0.1 ** sum(share >= place for place in STEPS) if schedule == "step" else 1.0
