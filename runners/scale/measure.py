"""What one run says of its speed, from what it left on disk. Pure but for reading its files.

Horovod's own timeline (--timeline-filename) tells how long it exchanged gradients. Facts (Horovod
0.28.1, horovod/common/timeline.cc, and files that it wrote): trace events of rank 0, B and E nested
for each tensor, which is a `pid`; microseconds since a start that the first event tells in Unix
time. NEGOTIATE_ALLREDUCE is from the first rank's readiness to the last one's, ALLREDUCE from then
to the result. Both may run beside computation.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ..core.files import read_json
from ..core.job_record import JobPaths
from ..jobs.metrics_tail import RATE, events
from .number_format import count

WARM_UP, NO_RATE = "warm-up", "no-rate"
START = re.compile(r'"start_time_since_epoch_in_micros":\s*(\d+)')
EVENT = re.compile(r'\{"ph": "([BE])"(?:, "name": "([^"]*)")?, "ts": (\d+), "pid": (\d+)')
MOVES, WAITS = "ALLREDUCE", "NEGOTIATE_ALLREDUCE"
CHUNK = 1 << 20  # characters: a long training's file has hundreds of megabytes, in one line


@dataclass(frozen=True)
class Measured:
    """One finished run. Rates are `unit`s per second of all ranks together.

    `rates` are those of the steady epochs, `rate` is theirs as a whole: what was trained on over
    the seconds it took. Seconds that no record tells are None. `launch_seconds` go from the
    start of the job's script to the trainer's first step, of which `startup_seconds` are those
    since the trainer began to import; `job_seconds` are the whole script's. `training_seconds` is
    the sum of all epochs, `steady_seconds` that of the steady ones, in which gradients moved for
    `exchange_seconds` and only waited for other ranks for `waiting_seconds` by Horovod's timeline.
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
    steady_seconds: float = 0.0
    exchange_seconds: float | None = None
    waiting_seconds: float | None = None
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


def read(
    paths: JobPaths, nodes: int, variant: str, repeat: int, drop: int, trace: str = ""
) -> Measured:
    """Return what a run measured, without its first `drop` epochs; raise NotMeasured.

    `trace` is the name of Horovod's timeline in the run's folder, "" for none.
    """
    result = read_json(paths.result)
    if not isinstance(result, dict):
        raise NotMeasured(NO_RATE, "the trainer wrote no result.json")
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
        image=str((read_json(paths.job) or {}).get("image", "")),
        steady_seconds=sum(seconds), **read_timeline(paths.root / trace, _end_of(epochs[:drop])),
        **_circumstances(result), **_times(result, read_json(paths.exit) or {}),
    )  # fmt: skip


def _epochs(metrics: Path) -> list[dict[str, Any]]:
    """Return the whole epochs that a run wrote down."""
    text = metrics.read_text(encoding="utf-8", errors="replace") if metrics.is_file() else ""
    found = events(text.splitlines())
    return [each for each in found if each.get("event") == "epoch" and each.get("seconds")]


def _end_of(epochs: Sequence[Mapping[str, Any]]) -> float:
    """Return when the last of these epochs ended, in Unix time; 0 where nobody knows."""
    ended = epochs[-1].get("time") if epochs else None
    return datetime.fromisoformat(ended).timestamp() if ended else 0.0


def _unit(result: Mapping[str, Any]) -> str:
    """Return what is counted per second: the first such number of the result names it."""
    names = [name for name in result if name.endswith(RATE)]
    known = [name for name in names if isinstance(result[name], (int, float))]
    if not names:
        raise NotMeasured(NO_RATE, "result.json has no number such as samples_per_s")
    return (known or names)[0][: -len(RATE)]


def _circumstances(result: Mapping[str, Any]) -> dict[str, Any]:
    names = ("startup_seconds", "accuracy", "loss", "threads", "device", "controller", "exchange")
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


def read_timeline(path: Path, since: float) -> dict[str, Any]:
    """Return the seconds after a Unix time in which tensors were moved, and those of mere waiting.

    They are `exchange_seconds` and `waiting_seconds`; none of a file that tells nothing.
    """
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as file:
        start = START.search(file.readline() + file.readline())
        if start is None:
            return {}
        begin = (since - int(start[1]) / 1e6) * 1e6
        return _sums(_events(file), begin)


def _events(file: TextIO) -> Iterator[tuple[str, str, int, str]]:
    """Yield phase, name, microsecond and tensor of each event, in the file's order."""
    rest = ""
    while chunk := file.read(CHUNK):
        rest += chunk
        end = rest.rfind("}") + 1
        for found in EVENT.finditer(rest[:end]):
            yield found[1], found[2] or "", int(found[3]), found[4]
        rest = rest[end:]


def _sums(events: Iterator[tuple[str, str, int, str]], begin: float) -> dict[str, float]:
    """Sum up the time between events by what goes on in it: moving before waiting."""
    nested: dict[str, list[str]] = {}
    active = {MOVES: 0, WAITS: 0}
    sums = {MOVES: 0.0, WAITS: 0.0}
    last = begin
    for phase, name, now, tensor in events:
        if now > last:
            what = MOVES if active[MOVES] else WAITS if active[WAITS] else ""
            if what:
                sums[what] += now - last
            last = now
        stack = nested.setdefault(tensor, [])
        if phase == "B":
            stack.append(name)
            active[name] = active.get(name, 0) + 1
        elif stack:
            active[stack.pop()] -= 1
    return {"exchange_seconds": sums[MOVES] / 1e6, "waiting_seconds": sums[WAITS] / 1e6}
