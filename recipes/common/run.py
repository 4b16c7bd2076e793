"""What a training run tells and leaves behind: metrics.jsonl, result.json, checkpoints, logs."""

from __future__ import annotations

import math
import platform
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from recipes import IMPORTED_UNIX_TIME, __version__

from . import checkpoints, fitting, places
from .checkpoints import Checkpoints, Manifest, Position
from .course import Course
from .ending import end_together, together
from .errors import EXIT_SAVED, Diverged, NotSaved
from .metrics import check_finite, means, summary
from .options import arguments
from .progress import Progress
from .record import Record, now
from .shards import Batch, Shards
from .stopping import Stop


class State(Protocol):
    """What a checkpoint holds of a framework's objects."""

    def signature(self) -> str:
        """Tell this model's weights from another's."""

    def gather(self) -> None:
        """Collect what each rank has of its own. Collective."""

    def write(self, stream: Any) -> None:
        """Write everything. Rank 0 only."""

    def restore(self, payload: bytes) -> str:
        """Take over what was written; return what could not be, in words."""


class Run:
    """The record of one training run. Every rank has one; only that of rank 0 prints or writes.

    `unit` is what is counted per second: "samples" or "tokens", of which each sample has `each`.
    Collective. Raises `UserError` if the output folder cannot be written.
    """

    def __init__(
        self, args: Namespace, hvd: Any, trainer: str, *, device: str, versions: dict[str, str],
        unit: str = "samples", each: int = 1,
    ) -> None:  # fmt: skip
        self.args, self.hvd, self.trainer = args, hvd, trainer
        self.unit, self.each, self.speaks = unit, each, hvd.rank() == 0
        self.versions = {**_base_versions(), **versions}
        self.folder = Path(args.output)
        self.checkpoints = Checkpoints(self.folder / "checkpoints", args.keep)
        self.places = places.gather(hvd, device)
        self.stop = Stop()
        self.stop.listen()
        self.epochs: list[dict[str, Any]] = []
        self.resumed_at_steps: list[int] = []
        self.first_step_unix_time = math.nan  # until the first step
        self.progress = Progress(0, 0, every=args.log_interval, speaks=self.speaks)
        # Horovod: the folder may be one that rank 0 cannot write to, and then all ranks stop.
        self.record: Any = together(hvd, self._open)
        if args.timeline:
            # Horovod: what each tensor waits for and when it is exchanged, by rank 0.
            hvd.start_timeline(str(self.folder / "timeline.json"))

    def _open(self) -> Record | None:
        return Record(self.folder, self.say) if self.speaks else None

    def say(self, text: str) -> None:
        """Print a line of progress, once for all ranks."""
        self.progress.say(text)

    def introduce(self, what: str) -> None:
        """Print what is trained on what, and where each rank computes."""
        self.say(f"{self.trainer}: {what}, {len(self.places)} ranks")
        self.say(places.banner(self.places))

    # Going on from a checkpoint

    def resume(self, state: State, shards: Shards) -> Course:
        """Return the course, from a checkpoint on, with `state` restored, or from the beginning.

        Rank 0 reads; the others need not see the folder. Collective. All ranks stop with a
        message if `--resume` names what cannot be used.
        """
        self.signature, self.state = state.signature(), state
        # Horovod: every rank takes part in telling an error, though only rank 0 can have one.
        found = together(self.hvd, lambda: self._find(shards) if self.speaks else None)
        found = self.hvd.broadcast_object(found, root_rank=0, name="checkpoint")
        position = Position() if found is None else self._take_over(*found)
        self.course = Course(shards, position, self.args.epochs, self.args.max_steps)
        self.progress = Progress(
            self.course.step, self.course.last_step, every=self.args.log_interval,
            speaks=self.speaks,
        )  # fmt: skip
        return self.course

    def _find(self, shards: Shards) -> tuple[Manifest, bytes] | None:
        found = checkpoints.find(
            self.args.resume, self.checkpoints, self.trainer, self.signature, self.say
        )
        if found is None:
            self.record.metrics.begin()
            return None
        fitting.require_same_order(found[0], shards)
        fitting.require_steps_left(found[0].position, self.args)
        self.record.metrics.go_on(found[0].position)
        return found

    def _take_over(self, manifest: Manifest, payload: bytes) -> Position:
        position = manifest.position
        lost = self.state.restore(payload)
        self.epochs = [e for e in manifest.history if e["epoch"] < position.epoch]
        self.resumed_at_steps = [*manifest.resumed_at_steps, position.step]
        self.say(f"resumed at step {position.step}, epoch {position.epoch}")
        now = arguments(self.args)
        for change in fitting.changes(manifest, now, len(self.places)):
            self.say(f"  changed since: {change}")
        if lost:
            self.say(f"  {lost}")
        if self.speaks:
            self.record.add("resume", {"step": position.step, "ranks": len(self.places)})
        return position

    # While training

    def loss_before(self) -> float:
        """Return what this rank starts the epoch's sum of losses with.

        After a restart that is the sum of all ranks before it, brought in again by rank 0.
        """
        return self.course.loss_before if self.speaks else 0.0

    def step_done(self, batch: Batch, losses: Any) -> None:
        """Count a step; tell of it every `--log-interval` steps.

        `losses` is the sum of this rank's, a scalar tensor: reading it waits for the device, so it
        is read no more often.
        """
        self.course.step_done(batch)
        step, epoch = self.course.step, self.course.epoch
        if math.isnan(self.first_step_unix_time):
            float(losses)
            self.first_step_unix_time = time.time()
        if not (self.speaks and self.progress.due(step)):
            return
        loss = float(losses) / max(1, batch.own * self.each)
        rate = batch.taken * self.each / self.course.seconds()
        self.progress.step(step, f"epoch {epoch}  loss {loss:.4f}  {rate:.0f} {self.unit}/s")
        line = {"step": step, "steps": self.course.last_step, "epoch": epoch, "loss": loss}
        self.record.add("step", {**line, f"{self.unit}_per_s": rate})
        self.record.plot(step, {"step/loss": loss, f"step/{self.unit}_per_s": rate})

    def check_loss(self, loss: float, step: int) -> None:
        """Stop all ranks if the loss of any is not a number. Collective."""

        def check() -> None:
            if not math.isfinite(loss):
                raise Diverged(
                    f"training diverged: the loss is {loss} in step {step}, "
                    f"epoch {self.course.epoch}.\n"
                    f"Try a --base-lr below {self.args.base_lr:g}, or more --warmup-epochs."
                )

        together(self.hvd, check)

    def trained(self) -> int:
        """Return this rank's part of the count of samples in this epoch: rank 0 counts for all."""
        return self.course.taken * self.each if self.speaks else 0

    def epoch_done(self, sums: Sequence[float], *, learning_rate: float, seconds: float) -> None:
        """Record an epoch from its `sums` over all ranks (see `metrics.means`).

        `seconds` are those of training, without evaluation; `learning_rate` is the last one.
        Collective: if training has diverged, all ranks stop. Then saves, if it is time to.
        """
        epoch, step, numbers = self.course.epoch, self.course.step, means(sums)
        together(self.hvd, lambda: check_finite(numbers, epoch, self.args.base_lr))
        line = {"epoch": epoch, "step": step, **numbers, "learning_rate": learning_rate}
        line |= {"seconds": seconds, f"{self.unit}_per_s": sums[1] / seconds}
        self.epochs.append({**line, "count": sums[1]})
        if self.speaks:
            self.record.add("epoch", {**line, "steps": self.course.last_step})
            self.record.plot(step, {f"epoch/{name}": float(value) for name, value in line.items()})
        told = "  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in numbers.items())
        self.say(
            f"epoch {epoch:3d}  {told}  {seconds:.2f} s  {sums[1] / seconds:.0f} {self.unit}/s"
        )
        self._save_after_epoch(self.course.position(sums[0], seconds))

    # Saving

    def must_save(self, *, stop: bool) -> bool:
        """Whether to save now, within the epoch, because it is time to or because all stop."""
        every: int = self.args.checkpoint_every
        due = every > 0 and self.course.step % every == 0
        return (stop or due) and not self.course.whole

    def save_within(self, loss_sum: float, *, stop: bool) -> None:
        """Save within an epoch, and end with `stop`. Collective.

        `loss_sum` is the epoch's sum of losses so far, of all ranks.
        """
        position = self.course.position(loss_sum, self.course.seconds())
        if stop:
            self._stop_early(position)
        self._save(position)

    def _save_after_epoch(self, position: Position) -> None:
        # Horovod: the signal may have reached one rank only.
        if any(self.hvd.allgather_object(bool(self.stop), name="stop")) and self.course.more:
            self._stop_early(position)
        every: int = self.args.checkpoint_every
        if not every or self.course.step % every == 0 or not self.course.more:
            self._save(position)

    def _save(self, position: Position) -> bool:
        """Save a checkpoint; a full disk is told, and the older ones stay whole. Collective.

        Returns whether it was saved, the same on every rank.
        """
        self.state.gather()
        problem = self._write(position) if self.speaks else ""
        problem = self.hvd.broadcast_object(problem, root_rank=0, name="saved")
        if problem:
            self.say(f"warning: no checkpoint of step {position.step}: {problem}")
        return not problem

    def _write(self, position: Position) -> str:
        manifest = Manifest(
            self.trainer, self.signature, position, self.course.shards.count, len(self.places),
            arguments(self.args), self.versions, self.epochs, self.resumed_at_steps, time=now(),
        )  # fmt: skip
        try:
            self.checkpoints.save(manifest, self.state.write)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _stop_early(self, position: Position) -> NoReturn:
        """Save, tell why, and end all ranks. Collective."""
        saved = self._save(position)
        # Horovod: the signal may have reached one rank only.
        signals = self.hvd.allgather_object(self.stop.signal, name="signals")
        why = next((name for name in signals if name), "request")
        if not saved:
            together(self.hvd, lambda: _not_saved(why, position))
        self._end_timeline()
        if self.speaks:
            self.record.add("stop", {"step": position.step, "signal": why})
            self.record.close()
        self.say(f"stopped on {why} after step {position.step}; a checkpoint is saved")
        self.say(f"go on: --resume {self.folder}")
        end_together(self.hvd, "", EXIT_SAVED)

    # The end

    def finish(self, **facts: Any) -> None:
        """Write result.json and print the last line. Speed is that of the steady state.

        Collective: if it cannot be written, all ranks end with a message.
        """
        self._end_timeline()
        # Horovod: a result that is lost is a failure of the job, which no rank may call a success.
        together(self.hvd, lambda: self._conclude(facts) if self.speaks else None)

    def _conclude(self, facts: dict[str, Any]) -> None:
        measured = summary(self.epochs, self.unit)
        begin = self.first_step_unix_time
        start = {"startup_seconds": begin - IMPORTED_UNIX_TIME, "first_step_unix_time": begin}
        result = {**measured, **start, **self._circumstances(), **facts}
        self.record.close()
        self.record.result(result)
        self.progress.close()
        where = self.folder / "result.json"
        print(f"accuracy {result['accuracy']:.4f}  result in {where}", flush=True)

    def _end_timeline(self) -> None:
        if self.args.timeline:
            # Horovod: without it the file lacks its end, and no viewer reads it.
            self.hvd.stop_timeline()

    def _circumstances(self) -> dict[str, Any]:
        return {
            "trainer": self.trainer,
            "world_size": len(self.places),
            "hosts": [place.host for place in self.places],
            "device": self.places[0].device,
            "threads": self.places[0].threads,
            "controller": places.controller(self.hvd),
            "resumed_at_steps": self.resumed_at_steps,
            "versions": self.versions,
            "arguments": arguments(self.args),
            "finished": now(),
        }


def _not_saved(why: str, position: Position) -> NoReturn:
    raise NotSaved(
        f"stopped on {why} after step {position.step}, and its checkpoint could not be saved; "
        "the one before is whole"
    )


def _base_versions() -> dict[str, str]:
    return {
        "recipes": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
