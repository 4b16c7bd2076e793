"""The training metrics of a run, metrics.jsonl: its events, and the latest values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core import files
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
    facts: dict[str, Any] = {}
    for event in events(reversed(files.tail(paths.metrics, TAIL).splitlines())):
        if isinstance(event.get("step"), int) and "time" in event:
            facts = {**_facts(event), **facts}
        if "loss" in facts and "rate" in facts:  # lines of resume and stop have neither
            break
    return Reading(**facts) if "step" in facts else None


def events(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """Yield the events of lines of metrics.jsonl; a line that was cut is passed over."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _facts(event: dict[str, Any]) -> dict[str, Any]:
    """Return what an event tells, under our names. An epoch's loss is the mean of all ranks."""
    facts = {name: event.get(name) for name in ("step", "steps", "epoch", "loss")}
    for name in event:
        if name.endswith(RATE):
            facts.update(rate=event[name], unit=name[: -len(RATE)])
    facts["time"] = datetime.fromisoformat(event["time"]).timestamp()
    return {name: value for name, value in facts.items() if value is not None}
