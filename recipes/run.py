"""A training run: it continues from a checkpoint, records its numbers, and stops when asked to.

    run = Run(args, ranks, "my_trainer", Framework("cpu", versions), about)
    run.begin(number_of_samples, state)     # continues from a checkpoint, as --resume says
    for epoch in run.epochs():
        for batch in run.batches():         # this rank's samples of a step
            ...
            run.step_done(loss)             # saves and stops where it has to
        run.epoch_done(evaluate)
    run.finish(weights)

All ranks call all methods. What differs between PyTorch and TensorFlow is given: `Framework`, and
a `state` that packs model and optimizer. Importing this file needs the standard library only.
"""

from __future__ import annotations

import math
import os
import platform
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from recipes import checkpoints, results
from recipes.agreement import Agreement, diverged
from recipes.device import Framework
from recipes.distributed import (
    Batch,
    Failed,
    Ranks,
    Shards,
    UserError,
    compare_weights,
    end,
    exchange,
    leave,
    threads,
    together,
)

EXIT_SAVED = 91  # all ranks stopped early on a signal, and a checkpoint is saved


class Run:
    """One training run, in the folder --output. Only rank 0 prints and writes.

    `unit` is what speed counts per second: "samples", or "tokens", of which a sample has
    `units_per_sample`.
    """

    rate = math.nan  # the learning rate, for the record
    failure: UserError | None = None  # to read data
    profiler: Any = None
    epoch_began = 0.0

    def __init__(
        self,
        args: Namespace,
        ranks: Ranks,
        trainer: str,
        framework: Framework,
        about: str,
        unit: str = "samples",
        units_per_sample: int = 1,
    ) -> None:
        self.args, self.ranks, self.trainer = args, ranks, trainer
        self.unit, self.units_per_sample = unit, units_per_sample
        self.framework, self.device = framework, framework.device
        self.main, self.folder = ranks.rank == 0, Path(args.output)
        self.versions = {"python": platform.python_version(), **framework.versions}
        if ranks.hvd is not None:
            self.versions["horovod"] = sys.modules["horovod"].__version__
        self.history: list[dict[str, Any]] = []  # of the epochs
        self.resumed_at_steps: list[int] = []
        self.data_seconds = 0.0  # of this epoch
        self.agreement = Agreement(ranks, framework)
        self.agreement.listen()
        cpus = len(os.sched_getaffinity(0))
        mine = socket.gethostname(), self.device, threads(ranks.local_size), cpus
        self.hardware = ranks.gather(mine)
        together(ranks, lambda: results.open_folder(self.folder) if self.main else None)
        if getattr(args, "timeline", False):
            ranks.hvd.start_timeline(str(self.folder / "timeline.json"))
        self.say(f"{trainer}: {about}, {ranks.size} ranks")
        for rank, (host, device, count, cpus) in enumerate(self.hardware):
            self.say(f"  rank {rank}  {host}  {device}  {count} threads  {cpus} CPUs")

    def say(self, text: str) -> None:
        if self.main:
            print(text, flush=True)

    def record(self, event: str, line: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl; training goes on if the disk is full."""
        try:
            if self.main:
                checkpoints.append(self.folder / "metrics.jsonl", {"event": event, **line})
        except OSError as error:
            self.say(f"warning: metrics.jsonl was not written: {error.strerror}")

    def begin(self, count: int, state: Any, *, drop_last: bool = False) -> None:
        """Start with `count` training samples; continue from a checkpoint, as --resume says."""
        args, ranks = self.args, self.ranks
        passes = getattr(args, "batches_per_allreduce", 1)
        shards = Shards(
            count, ranks.rank, ranks.size, args.seed, args.batch_size, passes, drop_last
        )
        self.shards, self.state = shards, state
        self.signature = state.signature()
        self.step, self.epoch, self.taken, self.loss_sum, self.seconds = 0, 1, 0, 0.0, 0.0
        together(ranks, shards.check)
        checkpoint = ranks.broadcast(together(ranks, lambda: self._find() if self.main else None))
        if checkpoint:
            self._continue(*checkpoint)
        left = shards.steps(self.taken) + (args.epochs - self.epoch) * shards.steps()
        self.last_step = min(self.step + left, args.max_steps or self.step + left)
        self.first_step, self.began = self.step, time.perf_counter()
        if args.profile and self.framework.profiler:
            folder = self.folder / "profile" / f"rank-{ranks.rank}"
            self.profiler = self.framework.profiler(str(folder), *args.profile)

    def _find(self) -> checkpoints.Loaded:
        found = checkpoints.to_resume(
            self.args, self.folder, self.trainer, self.signature, self.shards.count, self.say
        )
        metrics = self.folder / "metrics.jsonl"
        if found is None:
            metrics.write_text("")
        else:
            checkpoints.keep_lines(metrics, found[0]["step"], found[0]["epoch"])
        return found

    def _continue(self, manifest: dict[str, Any], payload: Any) -> None:
        self.state.unpack(payload)
        self.step, self.epoch, self.taken = (manifest[key] for key in ("step", "epoch", "taken"))
        self.loss_sum = manifest["loss_sum"] if self.main else 0.0
        self.seconds = manifest["seconds"]
        self.data_seconds = manifest.get("data_seconds", 0.0)  # older checkpoints: none
        self.history = [e for e in manifest["history"] if e["epoch"] < self.epoch]
        self.resumed_at_steps = [*manifest["resumed_at_steps"], self.step]
        self.say(f"resumed at step {self.step}, epoch {self.epoch}")
        if manifest["ranks"] != self.ranks.size:
            self.say(f"  {manifest['ranks']} ranks before, {self.ranks.size} now")
        self.record("resume", {"step": self.step, "ranks": self.ranks.size})

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left; the first may have begun before a restart."""
        while self.step < self.last_step:
            self.begin_epoch()
            yield self.epoch

    def begin_epoch(self) -> None:
        """Start an epoch's clock; of use where a framework has the loop that `epochs` is for."""
        self.epoch_began = time.perf_counter()
        self.agreement.begin(self.step)

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

    def step_done(self, loss: Any) -> None:
        """Count a step; save and stop where it is time to.

        `loss` is the sum of this rank's losses, a scalar on the device. Reading it waits for the
        device, so that is done twice a second only, when the ranks agree on a stop.
        """
        self.step, self.taken = self.step + 1, self.batch.taken
        self.loss_sum = self.loss_sum + loss
        self.agreement.step_done(loss)
        every = self.args.checkpoint_every
        due = bool(every) and self.step % every == 0
        # Nothing is saved before the ranks know that no loss is NaN and all data was read.
        stop = self._agree() if due or self.agreement.is_due(self.step) else ""
        if self.step % self.args.log_interval == 0:
            results.record_step(self, float(loss) / max(1, self.batch.own * self.units_per_sample))
        if self.profiler is not None:
            self.profiler.step()
        if self.taken < self.shards.whole and (stop or due):
            self._save(stop)

    def _agree(self) -> str:
        """Exchange who has to stop, cannot read its data or has diverged; return the signal."""
        bad = None
        if not math.isfinite(float(self.loss_sum)):  # waits for the device
            loss, step = self.agreement.first_bad(self.step)
            bad = diverged(self.args, loss, f"step {step}, epoch {self.epoch}")
        return self.agreement.reach(self.step, self.failure or bad)

    def epoch_done(self, evaluate: Callable[[], list[float]] | None = None) -> None:
        """Record the epoch; save and stop where it is time to.

        `evaluate` returns this rank's sum of test losses, right answers and number of samples.
        """
        stop = self._agree()
        self.seconds += time.perf_counter() - self.epoch_began
        waited = self.data_seconds  # evaluation reads too
        tested = together(self.ranks, evaluate) if evaluate else []
        everyone = self.ranks.gather([float(self.loss_sum), *tested])
        loss_sum, *test = (sum(column) for column in zip(*everyone))
        count = self.taken * self.units_per_sample
        numbers = {"loss": loss_sum / count}
        if test:
            numbers |= {"test_loss": test[0] / test[2], "accuracy": test[1] / test[2]}
        if not all(map(math.isfinite, numbers.values())):
            exchange(self.ranks, failure=diverged(self.args, math.nan, f"epoch {self.epoch}"))
        results.record_epoch(self, numbers, count, waited)
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
        compare_weights(self.ranks, weights)
        self._end_timeline()
        together(self.ranks, lambda: results.write(self, facts) if self.main else None)
        self.ranks.close()
        if self.ranks.hvd is None:
            leave(0)

    def _save(self, stop: str = "") -> None:
        """Save a checkpoint; with a signal `stop` end all ranks. A full disk is reported."""
        loss_sum = sum(self.ranks.gather(float(self.loss_sum)))
        manifest = checkpoints.manifest(self, loss_sum)
        path, problem = self.folder / "checkpoints" / f"step-{self.step:08d}.ckpt", ""
        try:
            payload = self.state.pack(path.with_name(".part"))
            if self.main:
                checkpoints.save(path, payload, manifest, self.args.keep)
        except OSError as error:
            problem = error.strerror or str(error)
        problem = self.ranks.broadcast(problem)
        if problem:
            self.say(f"warning: no checkpoint of step {self.step}: {problem}")
        if not stop:
            return
        if problem:
            text = f"error: stopped on {stop} after step {self.step}, and its checkpoint could not "
            end(self.ranks, f"{text}be saved; the one before is whole", Failed.exit_code)
        self._end_timeline()
        self.record("stop", {"step": self.step, "signal": stop})
        self.say(f"stopped on {stop} after step {self.step}; a checkpoint is saved")
        self.say(f"go on: --resume {self.folder}")
        end(self.ranks, "", EXIT_SAVED)

    def _end_timeline(self) -> None:
        if getattr(self.args, "timeline", False):
            self.ranks.hvd.stop_timeline()  # else the file lacks its end
