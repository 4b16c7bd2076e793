"""A training run.

    run = Run(args, ranks, "my_trainer", device, about, versions)
    run.begin(number_of_samples, state)     # continues from a checkpoint, as --resume says
    for epoch in run.epochs():
        for batch in run.batches():         # this rank's samples of a step
            ...
            run.step_done(loss)             # saves and stops where it has to
        run.epoch_done(evaluate)
    run.finish(weights)

`run_torch.Run` and `run_tf.Run` are those of the frameworks.
"""

from __future__ import annotations

import hashlib
import math
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from recipes import results
from recipes.ranks import Batch, Failed, UserError, exchange, leave, together
from recipes.saving import SavedRun

AGREE_SECONDS = 0.5  # between exchanges of who has to stop: each takes milliseconds


class Run(SavedRun):
    """One training run (see `SavedRun`). All ranks call all methods."""

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left; the first may have begun before a restart."""
        while self.step < self.last_step:
            self.begin_epoch()
            yield self.epoch

    def begin_epoch(self) -> None:
        """Start an epoch's clock; of use where a framework has the loop that `epochs` is for."""
        self.epoch_began = self.agreed_at = time.perf_counter()
        self.agreed_step, self.agree_at = self.step, self.step + 1
        self.losses, self.marks = [], [self.mark()]

    def batches(self) -> Iterator[Batch]:
        for batch in self.shards.batches(self.epoch, self.taken):
            if self.step == self.last_step:
                return
            self.batch = batch
            yield batch

    def keys(self) -> Iterator[tuple[int, Any]]:
        """Yield epoch and samples of this rank's passes from here to the end, to read ahead."""
        first, taken = self.epoch, self.taken
        for epoch in range(first, self.args.epochs + 1):
            for batch in self.shards.batches(epoch, taken if epoch == first else 0):
                yield from ((epoch, part) for part in batch.parts)

    @property
    def epochs_done(self) -> float:
        """How many epochs of training there were before this step."""
        return self.epoch - 1 + (self.batch.taken - self.batch.total) / self.shards.count

    def test_parts(self, count: int, at_once: int) -> list[Any]:
        """Return this rank's share of `count` test samples in parts of `at_once`."""
        import numpy as np

        share = np.arange(self.ranks.rank, count, self.ranks.size)
        return [share[start : start + at_once] for start in range(0, len(share), at_once)]

    def read(self, source: Callable[[], Any], blank: Any = None) -> Any:
        """Return `source()`, and count the time that it takes.

        If it raises `UserError`, return `blank` from then on: the other ranks wait for this one's
        gradients, and all end when they next agree.
        """
        began = time.perf_counter()
        try:
            return blank if self.failure else source()
        except UserError as error:
            self.failure = self.failure or error
            return blank
        finally:
            self.data_seconds += time.perf_counter() - began

    def mark(self) -> Any:
        """Note the time on the device; `elapsed` has the seconds between two marks."""
        return time.perf_counter()

    def elapsed(self, first: Any, second: Any) -> float:
        return float(second - first)

    def step_done(self, loss: Any) -> None:
        """Count a step; save and stop where it is time to.

        `loss` is the sum of this rank's losses, a scalar on the device. Reading it waits for the
        device, so that is done twice a second only, when the ranks agree on a stop.
        """
        self.step, self.taken = self.step + 1, self.batch.taken
        self.loss_sum = self.loss_sum + loss
        self.losses.append(loss)
        self.marks.append(self.mark())
        every = self.args.checkpoint_every
        due = bool(every) and self.step % every == 0
        # Nothing is saved before the ranks know that no loss is NaN and all data was read.
        stop = self._agree() if due or self.step >= self.agree_at else ""
        if self.step % self.args.log_interval == 0:
            self._log_step(float(loss) / max(1, self.batch.own * self.each))
        if self.profiler is not None:
            self.profiler.step()
        if self.taken < self.shards.whole and (stop or due):
            self._save(stop)

    def _log_step(self, loss: float) -> None:
        seconds = self.seconds + time.perf_counter() - self.epoch_began
        speed = self.taken * self.each / seconds
        pace = (time.perf_counter() - self.began) / (self.step - self.first_step)
        minutes, rest = divmod(round(pace * (self.last_step - self.step)), 60)
        left = f"{minutes // 60}:{minutes % 60:02d}" if minutes >= 60 else f"{minutes}"
        losses = f"epoch {self.epoch}  loss {loss:.4f}  {speed:.0f} {self.unit}/s"
        self.say(f"  step {self.step}/{self.last_step}  {losses}  {left}:{rest:02d} left")
        line = {"step": self.step, "steps": self.last_step, "epoch": self.epoch, "loss": loss}
        self.record("step", {**line, f"{self.unit}_per_s": speed})

    def _agree(self) -> str:
        """Exchange who has to stop, cannot read its data or has diverged; return the signal."""
        bad = None
        if not math.isfinite(float(self.loss_sum)):  # waits for the device
            losses = [float(loss) for loss in self.losses]
            number = next((n for n, x in enumerate(losses) if not math.isfinite(x)), 0)
            bad = self._diverged(losses[number], f"step {self.step - len(losses) + number + 1}, ")
        if math.isnan(self.first_step_unix_time):
            self.first_step_unix_time = time.time()
        for pair in zip(self.marks, self.marks[1:]):
            self.step_seconds.append(self.elapsed(*pair))
        steps, seconds = self.step - self.agreed_step, time.perf_counter() - self.agreed_at
        mine = self.stop, seconds / max(1, steps)
        everyone = exchange(self.ranks, mine, self.failure or bad)
        stride = int(AGREE_SECONDS / max(pace for _, pace in everyone))
        self.agreed_at, self.agreed_step = time.perf_counter(), self.step
        self.agree_at = self.step + max(1, stride)
        self.losses, self.marks = [], [self.mark()]
        return next((stop for stop, _ in everyone if stop), "")

    def _diverged(self, loss: float, where: str) -> Failed:
        return Failed(
            f"training diverged: the loss is {loss} in {where}epoch {self.epoch}.\n"
            f"Try a --base-lr below {self.args.base_lr:g}, or more --warmup-epochs."
        )

    def epoch_done(self, evaluate: Callable[[], list[float]] | None = None) -> None:
        """Record the epoch; save and stop where it is time to.

        `evaluate` returns this rank's sum of test losses, right answers and number of samples.
        """
        stop = self._agree()
        self.seconds += time.perf_counter() - self.epoch_began
        waited = self.data_seconds  # evaluation reads too
        tested = together(self.ranks, evaluate) if evaluate else []
        everyone = self.ranks.gather([float(self.loss_sum), *tested])
        loss_sum, *test = (sum(each) for each in zip(*everyone))
        count = self.taken * self.each
        numbers = {"loss": loss_sum / count}
        if test:
            numbers |= {"test_loss": test[0] / test[2], "accuracy": test[1] / test[2]}
        if not all(map(math.isfinite, numbers.values())):
            exchange(self.ranks, failure=self._diverged(math.nan, ""))
        line = {"epoch": self.epoch, "step": self.step, **numbers, "learning_rate": self.rate}
        line |= {"seconds": self.seconds, f"{self.unit}_per_s": count / self.seconds}
        self.history.append({**line, "count": count, "data_seconds": waited})
        self.record("epoch", {**line, "steps": self.last_step})
        means = "  ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in numbers.items())
        speed = f"{self.seconds:.2f} s  {count / self.seconds:.0f} {self.unit}/s"
        self.say(f"epoch {self.epoch:3d}  {means}  {speed}")
        self.epoch_began, self.data_seconds = time.perf_counter(), waited
        if self.taken >= self.shards.whole:
            self.epoch, self.taken, self.loss_sum = self.epoch + 1, 0, 0.0
            self.seconds = self.data_seconds = 0.0
        more, every = self.step < self.last_step, self.args.checkpoint_every
        if (stop and more) or not every or self.step % every == 0 or not more:
            self._save(stop if more else "")

    def finish(self, weights: Iterable[Any], **facts: Any) -> None:
        """Check that all ranks have the same weights (arrays), and write result.json."""
        if self.profiler is not None:
            self.profiler.stop()
        total = hashlib.sha256()
        for array in weights:
            total.update(array.tobytes())
        digests = self.ranks.gather(total.hexdigest())
        strays = [str(rank) for rank, one in enumerate(digests) if one != digests[0]]
        if strays:
            raise RuntimeError(
                f"the ranks trained different models: the weights of rank {', '.join(strays)} "
                f"differ from those of rank 0 (of {len(digests)} ranks). The usual causes: a "
                "variable that was not broadcast before the first step, or gradients applied "
                "without an allreduce."
            )
        self._end_timeline()
        together(self.ranks, lambda: self._write_result(facts) if self.main else None)
        self.ranks.close()
        if self.ranks.hvd is None:
            leave(0)

    def utilization(self, flops: float) -> dict[str, Any]:
        """Return the model FLOPs utilization, from the FLOPs of a sample (or token)."""
        return results.utilization(self, flops)

    def gpu_name(self) -> str:
        return ""

    def peak_memory(self) -> int:
        """Return the most memory, in bytes, that this rank had: its GPU's, or its own."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
