"""What rank 0 tells of a run: metrics.jsonl, TensorBoard's log, result.json, and lines."""

from __future__ import annotations

import errno
import importlib.util
import json
import math
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from recipes.errors import Diverged, NotSaved, UserError

from .files import write_atomically, write_json
from .steps import Position


class Record:
    """The files of a run in `folder`; `say` tells what could not be written.

    Raises `UserError` if nothing can be written there at all. What an earlier run called its
    result is taken away.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        try:
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            (folder / "result.json").unlink(missing_ok=True)
            self.metrics = Metrics(folder / "metrics.jsonl")
            self.board = event_writer(folder / "tensorboard")
        except OSError as error:
            raise UserError(
                f"cannot write to the output folder {folder}: {error.strerror}\n"
                "Give a folder that you can write to with --output."
            ) from error

    def add(self, event: str, line: Mapping[str, Any]) -> None:
        whole = {"event": event, **line, "time": now()}
        self._try("metrics.jsonl", lambda: self.metrics.add(whole))

    def plot(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write numbers for TensorBoard under their names, such as `epoch/accuracy`."""
        if self.board is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        event = Event(step=step, wall_time=time.time(), summary=Summary(value=values))
        self._try("TensorBoard's log", lambda: self.board.add_event(event))

    def result(self, values: Mapping[str, Any]) -> None:
        """Write result.json, whole or not at all; raise `NotSaved`: it is what all was for."""
        path = self.folder / "result.json"
        try:
            write_json(path, values)
        except OSError as error:
            raise NotSaved(
                f"all is trained, and {path} could not be written: {error.strerror}\n"
                f"Make room, then once more, from the newest checkpoint: --resume {self.folder}"
            ) from error

    def close(self) -> None:
        """Write what is left."""
        if self.board is not None:
            self._try("TensorBoard's log", self.board.close)

    def _try(self, what: str, write: Callable[[], object]) -> None:
        """Write a part of the record; a full disk is told, and training goes on."""
        try:
            write()
        except OSError as error:
            self.say(f"warning: {what} was not written: {error.strerror}")


def now() -> str:
    """Return the time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Metrics:
    """metrics.jsonl: one object a line, "event" is step, epoch, resume or stop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """Take away the lines of an earlier run."""
        self.path.write_text("", encoding="utf-8")

    def go_on(self, position: Position) -> None:
        """Keep the lines up to `position`: what came after was lost, and will come again."""
        old = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        kept = [line for line in old.splitlines(keepends=True) if _before(line, position)]
        write_atomically(self.path, lambda out: out.write("".join(kept).encode()))

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line, whole or not at all: a disk that becomes full takes the first part of it.

        Raises OSError, ValueError for a number that is not finite.
        """
        text = json.dumps(line, allow_nan=False) + "\n"
        with self.path.open("ab", buffering=0) as stream:
            end = stream.tell()
            if stream.write(text.encode()) < len(text):
                stream.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _before(line: str, position: Position) -> bool:
    """Whether a line tells of what is in the checkpoint; one that was cut does not."""
    try:
        found = json.loads(line)
        part = found["event"] == "epoch" and found["epoch"] >= position.epoch
        return bool(found["step"] <= position.step and not part)
    except (ValueError, KeyError, TypeError):
        return False


def event_writer(folder: Path) -> Any:
    """Return what writes TensorBoard's event files; without the package `tensorboard` None."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    # tensorboard 2 imports all of TensorFlow when it is installed, seconds for a few numbers,
    # unless a module of this name is there; its own small replacement serves.
    name = "tensorboard.compat.notf"
    if "tensorflow" not in sys.modules:
        sys.modules.setdefault(name, types.ModuleType(name))
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder))


def means(sums: Sequence[float]) -> dict[str, float]:
    """Turn sums over all ranks into means.

    The sums, in this order: training loss, samples trained on, test loss, right answers, samples
    tested. Never average the means of ranks: their shares differ in size.
    """
    loss, trained, test_loss, right, tested = sums
    return {"loss": loss / trained, "test_loss": test_loss / tested, "accuracy": right / tested}


def check_finite(numbers: Mapping[str, float], where: str, base_lr: float) -> None:
    """Raise `Diverged` if one of the numbers is not finite; `where` is a step or an epoch."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise Diverged(
                f"training diverged: {name} is {value} in {where}.\n"
                f"Try a --base-lr below {base_lr:g}, or more --warmup-epochs."
            )


def summary(epochs: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """Return what result.json tells of the epochs; speed without the first one."""
    last, steady = epochs[-1], epochs[1:]
    seconds = [epoch["seconds"] for epoch in steady]
    count = sum(epoch["count"] for epoch in steady)
    return {
        **{name: last[name] for name in ("accuracy", "loss", "test_loss")},
        "epochs": len(epochs),
        "steps": last["step"],
        # The first epoch compiles, fills caches and warms up: never part of the speed.
        f"{unit}_per_s": count / sum(seconds) if steady else None,
        "first_epoch_seconds": epochs[0]["seconds"],
        "steady_epoch_seconds": statistics.median(seconds) if steady else None,
    }


class Progress:
    """Steps done of `last_step`, from `first_step` on. Says nothing unless `speaks`."""

    def __init__(self, first_step: int, last_step: int, *, speaks: bool) -> None:
        self.first, self.last, self.speaks = first_step, last_step, speaks
        self.began = time.perf_counter()
        shown = speaks and last_step > first_step and sys.stdout.isatty()
        self.bar: Any = None
        if shown:
            from tqdm import tqdm

            self.bar = tqdm(
                total=last_step, initial=first_step, unit="step", file=sys.stdout,
                dynamic_ncols=True,
            )  # fmt: skip

    def step(self, step: int, text: str) -> None:
        """Show that `step` is done; `text` goes beside the bar, or into the line."""
        if self.bar is not None:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(step - self.bar.n)
        elif self.speaks:
            print(f"  step {step}/{self.last}  {text}  {self._left(step)} left", flush=True)

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.write(text)
        elif self.speaks:
            print(text, flush=True)

    def close(self) -> None:
        """End the bar, whose last steps it may not have been told of."""
        if self.bar is not None:
            self.bar.update(self.last - self.bar.n)
            self.bar.close()

    def _left(self, step: int) -> str:
        done = max(1, step - self.first)
        seconds = (time.perf_counter() - self.began) / done * (self.last - step)
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
