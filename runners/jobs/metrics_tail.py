"""The last numbers that a run wrote while training: the tail of its metrics.jsonl, no more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.job_record import JobPaths

TAIL = 16 * 2**10  # bytes: some sixty lines, whatever the run's length
RATE = "_per_s"


@dataclass(frozen=True)
class Reading:
    """How far a run is. `steps` are planned, `rate` counts `unit` per second, `time` is Unix's."""

    step: int
    time: float
    steps: int | None = None
    epoch: int | None = None
    loss: float | None = None
    rate: float | None = None
    unit: str = ""


def last(paths: JobPaths) -> Reading | None:
    """Return the newest numbers; None before the first, and for a trainer that writes none.

    A line that is being written, or was cut, is passed over. Raises OSError for a file that is
    there and cannot be read.
    """
    found: dict[str, Any] = {}
    for line in _newest_first(_tail(paths)):
        for name, value in _facts(line).items():
            found.setdefault(name, value)
        if "loss" in found and "rate" in found:  # lines of resume and stop have neither
            break
    return Reading(**found) if "step" in found else None


def _tail(paths: JobPaths) -> bytes:
    try:
        with paths.metrics.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read()
    except FileNotFoundError:
        return b""


def _newest_first(text: bytes) -> Iterator[dict[str, Any]]:
    for line in reversed(text.splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("step"), int) and "time" in value:
            yield value


def _facts(line: dict[str, Any]) -> dict[str, Any]:
    """Return what a line tells, under our names. An epoch's loss is the mean of all ranks."""
    facts = {name: line.get(name) for name in ("step", "steps", "epoch", "loss")}
    for name in line:
        if name.endswith(RATE):
            facts.update(rate=line[name], unit=name[: -len(RATE)])
    facts["time"] = datetime.fromisoformat(line["time"]).timestamp()
    return {name: value for name, value in facts.items() if value is not None}
