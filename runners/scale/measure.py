"""Reads the speed of one run from the files of its folder."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import job_record, plan_record
from ..core.errors import SystemFault
from ..core.files import read_json, read_text
from ..core.job_record import JobPaths
from ..core.text import count
from ..jobs.metrics_tail import RATE, events

WARM_UP, NO_RATE = "warm-up", "no-rate"


@dataclass(frozen=True)
class Measured:
    """One finished run. Rates are `unit`s per second of all ranks together.

    `rates` are those of the steady epochs, `rate` is theirs as a whole: what was trained on over
    the seconds it took. Seconds that no record tells are None. `launch_seconds` go from the
    start of the job's script to the trainer's first step, of which `startup_seconds` are those
    since the trainer began to import; `job_seconds` are the whole script's. `training_seconds` is
    the sum of all epochs.
    """

    nodes: int
    variant: str
    repeat: int
    folder: str
    ranks: int
    unit: str
    rate: float
    rates: tuple[float, ...]
    epochs: int
    epoch_seconds: float | None
    first_epoch_seconds: float | None
    training_seconds: float
    startup_seconds: float | None = None
    launch_seconds: float | None = None
    job_seconds: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    hosts: tuple[str, ...] = ()
    image: str = ""
    device: str = ""
    threads: int | None = None
    controller: str = ""
    exchange: str = ""
    resumed: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    finished: str = ""


class NotMeasured(Exception):
    """Why a run that has ended tells no speed; the kind is WARM_UP or NO_RATE."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read(paths: JobPaths, nodes: int, variant: str, repeat: int, drop: int) -> Measured:
    """Return what a run measured, without its first `drop` epochs; raise NotMeasured."""
    result, odd = job_record.result(paths)
    if result is None:
        raise NotMeasured(NO_RATE, odd or "the trainer wrote no result.json")
    epochs = _epochs(paths.metrics)
    steady = epochs[drop:]
    unit = _unit(result)
    rates = tuple(epoch[f"{unit}{RATE}"] for epoch in steady)
    seconds = [epoch["seconds"] for epoch in steady]
    if not epochs:
        rate = result.get(f"{unit}{RATE}")
    else:
        rate = sum(r * s for r, s in zip(rates, seconds)) / sum(seconds) if steady else None
    if not rate:
        what = f"nothing is left of {count(len(epochs), 'epoch')} after {drop} of warm-up"
        raise NotMeasured(WARM_UP, what)
    return Measured(
        nodes=nodes, variant=variant, repeat=repeat, folder=paths.root.name, unit=unit, rate=rate,
        rates=rates, epochs=len(epochs), training_seconds=sum(e["seconds"] for e in epochs),
        epoch_seconds=statistics.median(seconds) if seconds else None,
        first_epoch_seconds=epochs[0]["seconds"] if epochs else None,
        # What Horovod itself says of it; of a trainer that does not ask, what was decided.
        controller=str(result.get("controller") or _planned_controller(paths)),
        image=str((read_json(paths.job) or {}).get("image", "")),
        **_circumstances(result), **_times(result, read_json(paths.exit) or {}),
    )  # fmt: skip


def _planned_controller(paths: JobPaths) -> str:
    """Return what the plan decided, "" where it cannot be read: the rate does not depend on it."""
    try:
        return plan_record.read(paths).controller or ""
    except SystemFault:
        return ""


def _epochs(metrics: Path) -> list[dict[str, Any]]:
    recorded = events(read_text(metrics).splitlines())
    return [event for event in recorded if event.get("event") == "epoch" and event.get("seconds")]


def _unit(result: Mapping[str, Any]) -> str:
    """Return what is counted per second: the first such number of the result names it."""
    names = [name for name in result if name.endswith(RATE)]
    known = [name for name in names if isinstance(result[name], (int, float))]
    if not names:
        raise NotMeasured(NO_RATE, "result.json has no number such as samples_per_s")
    return (known or names)[0][: -len(RATE)]


def _circumstances(result: Mapping[str, Any]) -> dict[str, Any]:
    names = ("startup_seconds", "accuracy", "loss", "threads", "device", "exchange")
    kept = {name: result[name] for name in names if result.get(name) is not None}
    hosts: Sequence[str] = result.get("hosts") or ()
    return {
        **kept,
        "ranks": int(result.get("world_size") or len(hosts) or 1),
        "hosts": tuple(hosts),
        "resumed": bool(result.get("resumed_at_steps")),
        "versions": result.get("versions") or {},
        "finished": result.get("finished") or "",
    }


def _times(result: Mapping[str, Any], ended: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seconds from the script's start to the first step, and to the end.

    The script's clock is that of the job's first node, as the trainer's on rank 0 is.
    """
    began, first = ended.get("began"), result.get("first_step_unix_time")
    until = {"launch_seconds": first, "job_seconds": ended.get("time")}
    return {name: max(0.0, time - began) for name, time in until.items() if began and time}
