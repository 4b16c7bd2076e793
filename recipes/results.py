"""What a training run leaves behind: metrics.jsonl, result.json and checkpoints, by rank 0.

Files that others read whole appear by write-then-rename, so nobody ever reads half of one.
"""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from recipes import IMPORTED_UNIX_TIME, __version__
from recipes.common import UserError, check_finite, means, together


def default_output() -> str:
    """Return the launcher's folder for this run, or `out` when run by hand."""
    return os.environ.get("OUTPUT_DIR") or "out"


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, then give it its name in one step."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Run:
    """The record of one training run. Every rank has one; only that of rank 0 prints or writes.

    `unit` is what is counted per second: "samples" or "tokens". Raises `UserError` if the output
    folder cannot be written.
    """

    def __init__(self, args: Namespace, hvd: Any, unit: str) -> None:
        self.args, self.hvd, self.unit = args, hvd, unit
        self.speaks = hvd.rank() == 0
        self.folder = Path(args.output)
        self.epochs: list[dict[str, Any]] = []
        self.first_step_unix_time = math.nan  # until the first step
        if self.speaks:
            self._prepare()

    def _prepare(self) -> None:
        """Make the folder and take away what an earlier run left under the same names."""
        try:
            (self.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            (self.folder / "result.json").unlink(missing_ok=True)
            (self.folder / "metrics.jsonl").write_text("", encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"cannot write to the output folder {self.folder}: {error.strerror}\n"
                "Give a folder that you can write to with --output."
            ) from error

    def say(self, text: str) -> None:
        """Print a line of progress, once for all ranks."""
        if self.speaks:
            print(text, flush=True)

    def step_done(self, step: int, loss: Any) -> None:
        """Note when the first step of all was finished, and print every `--log-interval` steps.

        `loss` is a scalar tensor: reading it waits for the device, so it is read no more often.
        """
        if step == 1:
            float(loss)
            self.first_step_unix_time = time.time()
        if self.speaks and step % self.args.log_interval == 0:
            self.say(f"  step {step}  loss {float(loss):.4f} on rank 0")

    def epoch_done(
        self, sums: Sequence[float], *, epoch: int, step: int, learning_rate: float, seconds: float
    ) -> None:
        """Record an epoch from its `sums` over all ranks (see `common.means`).

        `seconds` are those of training, without evaluation; `step` and `learning_rate` the last.
        Collective: if training has diverged, all ranks stop.
        """
        numbers = means(sums)
        together(self.hvd, lambda: check_finite(numbers, epoch, self.args.base_lr))
        line = {"epoch": epoch, "step": step, **numbers, "learning_rate": learning_rate}
        line |= {"seconds": seconds, f"{self.unit}_per_s": sums[1] / seconds}
        self.epochs.append({**line, "count": sums[1]})
        if self.speaks:
            with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({**line, "time": _now()}, allow_nan=False) + "\n")
        self.say(
            f"epoch {epoch:3d}  train loss {numbers['train_loss']:.4f}  "
            f"test loss {numbers['test_loss']:.4f}  accuracy {numbers['accuracy']:.4f}  "
            f"{seconds:.2f} s  {sums[1] / seconds:.0f} {self.unit}/s"
        )

    def checkpoint(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        """Let rank 0 write `checkpoints/<name>`, replacing that of the epoch before."""
        if self.speaks:
            write_atomically(self.folder / "checkpoints" / name, write)

    def finish(self, hosts: list[str], versions: dict[str, str], **facts: Any) -> None:
        """Write result.json and print the last line. Speed is that of the steady state."""
        if not self.speaks:
            return
        result = {**self._measured(), **self._circumstances(hosts, versions), **facts}
        text = json.dumps(result, indent=2, allow_nan=False) + "\n"
        write_atomically(self.folder / "result.json", lambda out: out.write(text.encode()))
        self.say(f"accuracy {result['accuracy']:.4f}  result in {self.folder / 'result.json'}")

    def _measured(self) -> dict[str, Any]:
        last, steady = self.epochs[-1], self.epochs[1:]
        seconds = [epoch["seconds"] for epoch in steady]
        count = sum(epoch["count"] for epoch in steady)
        return {
            "accuracy": last["accuracy"],
            "loss": last["test_loss"],
            "train_loss": last["train_loss"],
            "epochs": len(self.epochs),
            "steps": last["step"],
            # The first epoch compiles, fills caches and warms up: never part of the speed.
            f"{self.unit}_per_s": count / sum(seconds) if steady else None,
            "first_epoch_seconds": self.epochs[0]["seconds"],
            "steady_epoch_seconds": statistics.median(seconds) if steady else None,
            "startup_seconds": self.first_step_unix_time - IMPORTED_UNIX_TIME,
            "first_step_unix_time": self.first_step_unix_time,
        }

    def _circumstances(self, hosts: list[str], versions: dict[str, str]) -> dict[str, Any]:
        return {
            "world_size": len(hosts),
            "hosts": hosts,
            "controller": controller(self.hvd),
            "versions": {**_base_versions(), **versions},
            "arguments": vars(self.args),
            "finished": _now(),
        }


def hosts(hvd: Any) -> list[str]:
    """Return the host name of every rank, by rank. Collective: every rank must call it."""
    found: list[str] = hvd.allgather_object(socket.gethostname(), name="hosts")
    return found


def controller(hvd: Any) -> str:
    """Name the controller that Horovod coordinates this run with: "mpi" or "gloo"."""
    if hvd.mpi_enabled():
        return "mpi"
    return "gloo" if hvd.gloo_enabled() else "unknown"


def _base_versions() -> dict[str, str]:
    return {
        "recipes": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
