"""One training run as its trainer sees it: it goes on, counts, saves, stops, records, ends.

    run = Run(args, hvd, "my_trainer", ...)
    run.begin(state, run.deal(count))
    for epoch in run.epochs():
        for batch in run.batches():
            ...
            run.step_done(loss, stop=...)
        run.epoch_done(lambda: evaluate(...))
    run.conclude(weights)

`torch_run.Run` and `tf_run.Run` have `resume`, `step` and `finish`, for their frameworks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from recipes import IMPORTED_UNIX_TIME
from recipes.errors import UserError

from . import placement
from .abort import on_all_ranks
from .record import check_finite, means, now, summary
from .saving import SavedRun
from .steps import Batch, Indices, Shards, chunks, deal, evaluation_share
from .weights import assert_identical, digest


class Run(SavedRun):
    """One training run (see `SavedRun`)."""

    first_step_unix_time = rate = math.nan  # until the first step
    profiler: Any = None  # the framework's, for `--profile`
    failure: UserError | None = None  # to read samples

    def deal(self, count: int, what: str = "samples", *, whole_steps: bool = False) -> Shards:
        """Return this rank's share of `count` training samples (see `steps.deal`). Collective."""
        # Horovod: too few samples are an error on all ranks.
        return on_all_ranks(
            self.hvd, lambda: deal(self.args, self.hvd, count, what, whole_steps=whole_steps)
        )

    # While training

    def scalar(self, value: float) -> Any:
        """Return a number as the framework adds it up, where losses are."""
        return value

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left, the first one perhaps begun already."""
        for epoch in self.loop.epochs():
            # After a restart: the sum of all ranks before it, brought in again by rank 0.
            self.loss_sum = self.scalar(self.loop.loss_before if self.speaks else 0.0)
            yield epoch

    def batches(self) -> Iterator[Batch]:
        for batch in self.loop.batches():
            self.batch = batch
            yield batch

    @property
    def epochs_done(self) -> float:
        """How many epochs of training there were before this step."""
        return self.loop.epoch - 1 + self.batch.before / self.loop.shards.count

    def step_done(self, losses: Any, *, stop: bool) -> None:
        """Count a step; tell of it every `--log-interval` steps; save if it is time to. Collective.

        `losses` is the sum of this rank's, a scalar tensor: reading it waits for the device, so it
        is read no more often. With `stop`, the same on all ranks, all end here with their work
        saved.
        """
        self.loss_sum += losses
        self.loop.step_done(self.batch)
        if math.isnan(self.first_step_unix_time):
            float(losses)
            self.first_step_unix_time = time.time()
        if self.speaks and self.loop.step % self.args.log_interval == 0:
            self._tell_step(float(losses) / max(1, self.batch.own * self.each))
        if self.profiler is not None:
            self.profiler.step()
        every: int = self.args.checkpoint_every
        due = every > 0 and self.loop.step % every == 0
        if (stop or due) and not self.loop.whole:
            # Horovod: a checkpoint has the sum of all ranks.
            (loss_sum,) = self.total([float(self.loss_sum)])
            self.save_within_epoch(loss_sum, stop=stop)

    def _tell_step(self, loss: float) -> None:
        step, epoch = self.loop.step, self.loop.epoch
        rate = self.batch.taken * self.each / self.loop.seconds()
        self.progress.step(step, f"epoch {epoch}  loss {loss:.4f}  {rate:.0f} {self.unit}/s")
        line = {"step": step, "steps": self.loop.last_step, "epoch": epoch, "loss": loss}
        self.record.add("step", {**line, f"{self.unit}_per_s": rate})
        self.record.plot(step, {"step/loss": loss, f"step/{self.unit}_per_s": rate})

    def _check_finite(self, numbers: Mapping[str, float], where: str) -> None:
        on_all_ranks(self.hvd, lambda: check_finite(numbers, where, self.args.base_lr))

    def read_or(self, read: Callable[[], Any], blank: Callable[[], Any]) -> Any:
        """Return `read()`; if that raises `UserError`, `blank()`, and `heed` ends all ranks.

        The other ranks wait for this one's gradients in this step, so it still takes part.
        """
        try:
            return read()
        except UserError as error:
            self.failure = error
            return blank()

    def heed(self, asked: float, unread: float, bad: float, loss: Any, step: Any) -> bool:
        """Return whether to stop now, from what all ranks have agreed on. Collective.

        Data that a rank could not read, and a loss that is no number, end all ranks here. Of
        scalar tensors `loss` and `step` are read only then: reading waits for the device.
        """
        if unread:
            on_all_ranks(self.hvd, self.tell_failure)
        if bad:
            where = f"step {int(step)}, epoch {self.loop.epoch}"
            self._check_finite({"the loss": float(loss)}, where)
        return bool(asked)

    def tell_failure(self) -> None:
        """Raise what `read_or` kept, if there is something."""
        if self.failure is not None:
            raise self.failure

    def epoch_done(self, evaluate: Callable[[], Sequence[float]]) -> None:
        """Test and record; save, if it is time to. Collective.

        `evaluate` returns this rank's sum of test losses, right answers and tested samples.
        """
        mine = [float(self.loss_sum)]  # waits for the device: the clock stops after it
        seconds = self.loop.seconds()
        # The samples of an epoch, which rank 0 counts for all.
        mine.append(self.loop.taken * self.each if self.speaks else 0)
        # Horovod: a sample that cannot be read may be in one rank's share only.
        mine += on_all_ranks(self.hvd, evaluate)
        # Horovod: sums over all ranks, so that the means count every sample alike.
        self.record_epoch(self.total(mine), seconds)

    def test_parts(self, count: int, at_once: int) -> list[Indices]:
        """Return this rank's share of `count` test samples, cut into pieces of `at_once`."""
        # Horovod: shares differ in size and may be empty, so nothing is exchanged between pieces.
        return chunks(evaluation_share(count, self.hvd.rank(), self.hvd.size()), at_once)

    def total(self, mine: Sequence[float]) -> list[float]:
        """Return sums over all ranks, number by number. Collective."""
        everyones = self.hvd.allgather_object([float(one) for one in mine], name="sums")
        return [sum(each) for each in zip(*everyones)]

    def record_epoch(self, sums: Sequence[float], seconds: float) -> None:
        """Record an epoch from its `sums` over all ranks (see `record.means`); save.

        `seconds` are those of training, without evaluation.
        Collective: if training has diverged, all ranks stop.
        """
        epoch, step, numbers = self.loop.epoch, self.loop.step, means(sums)
        self._check_finite(numbers, f"epoch {epoch}")
        line = {"epoch": epoch, "step": step, **numbers, "learning_rate": self.rate}
        line |= {"seconds": seconds, f"{self.unit}_per_s": sums[1] / seconds}
        self.history.append({**line, "count": sums[1]})
        if self.speaks:
            self.record.add("epoch", {**line, "steps": self.loop.last_step})
            self.record.plot(step, {f"epoch/{name}": float(value) for name, value in line.items()})
        told = "  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in numbers.items())
        self.say(
            f"epoch {epoch:3d}  {told}  {seconds:.2f} s  {sums[1] / seconds:.0f} {self.unit}/s"
        )
        self.save_after_epoch(self.loop.position(sums[0], seconds))

    def conclude(self, weights: Iterable[NDArray[Any]], **facts: Any) -> None:
        """Write result.json, with `facts`, and print the last line.

        Collective: all ranks must have ended with the same `weights`; if the result cannot be
        written, all end with a message.
        """
        if self.profiler is not None:
            self.profiler.stop()
        # Horovod: weights that differ are what a missing broadcast or exchange leaves.
        assert_identical(self.hvd.allgather_object(digest(weights), name="digest"))
        self.end_timeline()
        # Horovod: a result that is lost is a failure of the job, which no rank may call a success.
        on_all_ranks(self.hvd, lambda: self._write_result(facts) if self.speaks else None)

    def _write_result(self, facts: dict[str, Any]) -> None:
        result = {
            **summary(self.history, self.unit),
            "startup_seconds": self.first_step_unix_time - IMPORTED_UNIX_TIME,
            "first_step_unix_time": self.first_step_unix_time,
            "trainer": self.trainer,
            "world_size": len(self.places),
            "hosts": [place.host for place in self.places],
            "device": self.places[0].device,
            "threads": self.places[0].threads,
            "controller": placement.controller(self.hvd),
            "resumed_at_steps": self.resumed_at_steps,
            "versions": self.versions,
            "arguments": vars(self.args),
            "finished": now(),
            **facts,
        }
        self.record.close()
        self.record.result(result)
        self.progress.close()
        where = self.folder / "result.json"
        print(f"accuracy {result['accuracy']:.4f}  result in {where}", flush=True)
