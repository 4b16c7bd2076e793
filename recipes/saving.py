"""A run that continues from a checkpoint, saves its work, and ends when a signal asks for it."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import signal
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recipes import checkpoints, results
from recipes.ranks import Failed, Ranks, Shards, UserError, end, threads, together

EXIT_SAVED = 91  # all ranks stopped early on a signal, and a checkpoint is saved
SIGNALS = signal.SIGUSR1, signal.SIGTERM  # the time limit comes near; preemption


def signature(shapes: Iterable[tuple[str, Any]]) -> str:
    """Return a checksum of the names and shapes of a model's weights."""
    text = "\n".join(f"{name} {tuple(shape)}" for name, shape in shapes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SavedRun:
    """The output folder of a run, and its checkpoints. Only rank 0 prints and writes.

    `unit` is what speed counts per second: "samples", or "tokens" of which a sample has `each`.
    """

    stop = ""  # the signal that asked this rank to stop
    rate = math.nan  # the learning rate, for the record
    first_step_unix_time = math.nan
    failure: UserError | None = None  # to read data
    profiler: Any = None
    epoch_began = 0.0

    def __init__(
        self,
        args: Namespace,
        ranks: Ranks,
        trainer: str,
        device: Any,
        about: str,
        versions: dict[str, str],
        unit: str = "samples",
        each: int = 1,
    ) -> None:
        self.args, self.ranks, self.trainer, self.unit, self.each = args, ranks, trainer, unit, each
        self.main, self.device, self.folder = ranks.rank == 0, str(device), Path(args.output)
        self.versions = {"python": platform.python_version(), **versions}
        if ranks.hvd is not None:
            self.versions["horovod"] = sys.modules["horovod"].__version__
        self.history: list[dict[str, Any]] = []  # of the epochs
        self.resumed_at_steps: list[int] = []
        self.step_seconds: list[float] = []
        self.losses: list[Any] = []  # since the ranks last agreed, and the marks of its steps
        self.marks: list[Any] = []
        self.data_seconds = 0.0  # of this epoch
        self.listen()
        cpus = len(os.sched_getaffinity(0))
        own = socket.gethostname(), self.device, threads(ranks.local_size), cpus
        self.hardware = ranks.gather(own)
        together(ranks, self._open if self.main else lambda: None)
        if getattr(args, "timeline", False):
            ranks.hvd.start_timeline(str(self.folder / "timeline.json"))
        self.say(f"{trainer}: {about}, {ranks.size} ranks")
        for rank, (host, device, count, cpus) in enumerate(self.hardware):
            self.say(f"  rank {rank}  {host}  {device}  {count} threads  {cpus} CPUs")

    def listen(self) -> None:
        """Note the signals from now on, instead of ending the process."""

        def note(number: int, frame: Any) -> None:
            self.stop = signal.Signals(number).name

        for number in SIGNALS:
            signal.signal(number, note)

    def _open(self) -> None:
        try:
            (self.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            (self.folder / "result.json").unlink(missing_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot write to the output folder {self.folder}: {error.strerror}\n"
                "Give a folder that you can write to with --output."
            ) from error

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
        if args.profile:
            folder = self.folder / "profile" / f"rank-{ranks.rank}"
            self.profiler = self.start_profiler(str(folder), *args.profile)

    def _find(self) -> checkpoints.Loaded:
        args, own, metrics = self.args, self.folder / "checkpoints", self.folder / "metrics.jsonl"
        latest = checkpoints.find(args.resume, own, self.trainer, self.signature, self.say)
        if latest is None:
            metrics.write_text("")
            return None
        was, now = latest[0], {"count": self.shards.count, "seed": args.seed}
        if was["taken"] and any(was[key] != value for key, value in now.items()):
            raise UserError(
                f"the checkpoint is from the middle of epoch {was['epoch']} with {was['count']} "
                f"samples and --seed {was['seed']}, and now they are {now['count']} and "
                f"{now['seed']}: give the same to continue"
            )
        for option, done in (("epochs", was["epoch"] - 1), ("max_steps", was["step"])):
            limit = getattr(args, option)
            if limit is not None and done >= limit:
                raise UserError(
                    f"nothing is left to do: the checkpoint has {was['step']} steps, "
                    f"{was['epoch'] - 1} whole epochs; give more than "
                    f"--{option.replace('_', '-')} {limit}"
                )
        checkpoints.keep_lines(metrics, was["step"], was["epoch"])
        return latest

    def start_profiler(self, folder: str, first: int, last: int) -> Any:
        """Start what has `step()` and `stop()`; the frameworks override it."""

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

    def _save(self, stop: str = "") -> None:
        """Save a checkpoint; with a signal `stop` end all ranks. A full disk is reported."""
        loss_sum = sum(self.ranks.gather(float(self.loss_sum)))
        manifest = {
            "trainer": self.trainer,
            "signature": self.signature,
            "step": self.step,
            "epoch": self.epoch,
            "taken": self.taken,
            "loss_sum": loss_sum,
            "seconds": self.seconds + (time.perf_counter() - self.epoch_began if self.taken else 0),
            "data_seconds": self.data_seconds,
            "count": self.shards.count,
            "seed": self.args.seed,
            "ranks": self.ranks.size,
            "history": self.history,
            "resumed_at_steps": self.resumed_at_steps,
            "arguments": vars(self.args),
            "versions": self.versions,
        }
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

    def _write_result(self, facts: dict[str, Any]) -> None:
        path, result = self.folder / "result.json", results.summary(self, facts)
        try:
            checkpoints.write_json(path, result)
        except OSError as error:
            raise Failed(
                f"training finished, but {path} could not be written: {error.strerror}\n"
                f"Make room, then run again from the newest checkpoint: --resume {self.folder}"
            ) from error
        shown = {key: result.get(key) for key in ("accuracy", f"{self.unit}_per_s")}
        text = "  ".join(f"{key} {value:.4g}" for key, value in shown.items() if value)
        self.say(f"{text}  result in {path}")
