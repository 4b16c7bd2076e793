"""The numbers of a run: means over all ranks, the lines of metrics.jsonl, the final summary."""

from __future__ import annotations

import errno
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.errors import Diverged

from .checkpoints import Position
from .files import write_atomically


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


def means(sums: Sequence[float]) -> dict[str, float]:
    """Turn sums over all ranks into means.

    The sums, in this order: training loss, samples trained on, test loss, right answers, samples
    tested. Never average the means of ranks: their shares differ in size.
    """
    loss, trained, test_loss, right, tested = sums
    return {
        "loss": loss / trained,
        "test_loss": test_loss / tested,
        "accuracy": right / tested,
    }


def check_finite(numbers: Mapping[str, float], epoch: int, base_lr: float) -> None:
    """Raise `Diverged` if one of an epoch's numbers is not finite."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise Diverged(
                f"training diverged: {name} is {value} in epoch {epoch}.\n"
                f"Try a --base-lr below {base_lr:g}, or more --warmup-epochs."
            )


def summary(epochs: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """Return what result.json tells of the epochs; speed without the first one."""
    last, steady = epochs[-1], epochs[1:]
    seconds = [epoch["seconds"] for epoch in steady]
    count = sum(epoch["count"] for epoch in steady)
    return {
        "accuracy": last["accuracy"],
        "loss": last["loss"],
        "test_loss": last["test_loss"],
        "epochs": len(epochs),
        "steps": last["step"],
        # The first epoch compiles, fills caches and warms up: never part of the speed.
        f"{unit}_per_s": count / sum(seconds) if steady else None,
        "first_epoch_seconds": epochs[0]["seconds"],
        "steady_epoch_seconds": statistics.median(seconds) if steady else None,
    }
