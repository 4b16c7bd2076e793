"""How much of a job's time was training that counts, where it came back after an interruption.

From what its folder has: `starts.jsonl` (when the script began and ended), `metrics.jsonl` (when
which step was done; ours drop the lines of steps that were lost), and when it was submitted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..core import files
from ..core.errors import SystemFault
from ..core.files import DAMAGED
from ..core.job_record import Job, JobPaths
from . import wording
from .metrics_tail import events

STALL_SECONDS = 60.0  # between two lines, at least, and
STALL_TIMES = 10.0  # times what is usual between them


@dataclass(frozen=True)
class TimeSpent:
    """Seconds of a job since it was submitted.

    `queue` is before each start, `start_up` from each start to its first step, `lost` is work that
    no checkpoint kept, `stalls` are steps that took far longer than the others, `training` is what
    counts. Where the trainer wrote no steps the last four are None. `share` is that of training in
    what was not spent in the queue.
    """

    starts: int
    total: float
    queue: float
    start_up: float | None = None
    lost: float | None = None
    stalls: float | None = None
    training: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Start:
    """One start of the job's script, and the steps that were done in it: (time, step).

    `nodes` are Slurm's, "" of other schedulers.
    """

    began: float
    ended: float
    steps: tuple[tuple[float, int], ...] = ()
    resumed: tuple[float, int] | None = None
    nodes: str = ""


def of_run(paths: JobPaths, job: Job) -> TimeSpent | None:
    """Return how a job's time was spent; None for one that has recorded no start.

    Raises SystemFault for records that cannot be read.
    """
    try:
        starts = list(_starts(_lines(paths.starts), _lines(paths.metrics)))
        time_spent = spent(job.submitted, starts) if starts else None
        if time_spent is not None:
            in_words(time_spent)  # a record of another user's may have numbers that are no times
        return time_spent
    except (OSError, *DAMAGED) as error:
        raise SystemFault(f"cannot read {paths.starts} and {paths.metrics}", str(error)) from None


def spans(paths: JobPaths) -> list[Start]:
    """Return the starts of a job's script, maybe without steps; raises OSError, and DAMAGED.

    metrics.jsonl may be long: it is read only for a start that recorded no end.
    """
    records = _lines(paths.starts)
    starts = list(_starts(records, ()))
    if all(start.ended > start.began for start in starts):
        return starts
    return list(_starts(records, _lines(paths.metrics)))


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return list(events(files.read_bytes(path).splitlines()))
    except FileNotFoundError:
        return []


def _starts(records: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]]) -> Iterator[Start]:
    """Yield the starts. One that was killed hard has no end: it lasted to its last line or more."""
    done = [line for line in map(_timed, lines) if line]
    starts = [one for one in records if "began" in one]
    began = [float(one["began"]) for one in starts]
    ends = [float(one["ended"]) for one in records if "ended" in one]
    for place, first in enumerate(began):
        last = began[place + 1] if place + 1 < len(began) else float("inf")
        inside = [line for line in done if first <= line[1] < last]
        times = [line[1] for line in inside]
        ended = next((end for end in ends if first <= end <= last), max([first, *times]))
        steps = tuple((when, step) for kind, when, step in inside if kind != "resume")
        resumed = [(when, step) for kind, when, step in inside if kind == "resume"]
        nodes = str(starts[place].get("nodes", ""))
        yield Start(first, ended, steps, resumed[0] if resumed else None, nodes)


def _timed(line: dict[str, Any]) -> tuple[str, float, int] | None:
    """Return what a line of metrics.jsonl is about, its time and its step."""
    try:
        when = datetime.fromisoformat(line["time"]).timestamp()
        return str(line.get("event", "")), when, int(line["step"])
    except (KeyError, TypeError, ValueError):
        return None


def spent(submitted: float, starts: Sequence[Start]) -> TimeSpent:
    """Put it together; the end of a job is that of its last start."""
    ends = [submitted, *(start.ended for start in starts)]
    queue = sum(max(0.0, start.began - end) for start, end in zip(starts, ends))
    total = ends[-1] - submitted
    if not any(start.steps for start in starts):
        return TimeSpent(len(starts), total, queue)
    start_up = lost = stalls = training = 0.0
    usual = _usual(starts)
    for place, start in enumerate(starts):
        kept = _kept(start, starts[place + 1 :])
        if not start.steps:
            start_up += start.ended - start.began
            continue
        if not kept:
            lost += start.ended - start.began
            continue
        began = _training_began(start, kept, usual)
        start_up += began - start.began
        waits = sum(_stall(kept, usual))
        stalls += waits
        last = kept[-1][0] if place + 1 < len(starts) else start.ended
        training += last - began - waits
        lost += start.ended - last
    share = training / (total - queue) if total > queue else None
    return TimeSpent(len(starts), total, queue, start_up, lost, stalls, training, share)


def _kept(start: Start, later: Sequence[Start]) -> list[tuple[float, int]]:
    """Return the steps that later starts did not do again."""
    again = [one.resumed[1] if one.resumed else 0 for one in later if one.resumed or one.steps]
    most = min(again, default=None)
    return [line for line in start.steps if most is None or line[1] <= most]


def _training_began(start: Start, kept: Sequence[tuple[float, int]], usual: float | None) -> float:
    """Return when the first step began: at the resume, or before the first line by its steps."""
    if start.resumed:
        return start.resumed[0]
    when, step = kept[0]
    return max(start.began, when - (usual or 0.0) * step)


def _usual(starts: Sequence[Start]) -> float | None:
    """Return the seconds that a step usually takes."""
    each = [
        (after[0] - before[0]) / (after[1] - before[1])
        for start in starts
        for before, after in zip(start.steps, start.steps[1:])
        if after[1] > before[1]
    ]
    return statistics.median(each) if each else None


def _stall(kept: Sequence[tuple[float, int]], usual: float | None) -> Iterator[float]:
    """Yield how much longer than usual some steps took."""
    for before, after in zip(kept, kept[1:]):
        took, normal = after[0] - before[0], (usual or 0.0) * max(1, after[1] - before[1])
        if took > max(STALL_SECONDS, STALL_TIMES * normal):
            yield took - normal


def in_words(spent: TimeSpent) -> str:
    """Return `71 % effective training of 0:12:03 in 3 starts (start-up 0:40, ...)`."""
    ran = wording.span(spent.total - spent.queue)
    queue = f"queue {wording.span(spent.queue)}"
    if spent.share is None:
        return f"{ran} in {spent.starts} starts, training not measured ({queue} beside)"
    parts = {"start-up": spent.start_up, "lost steps": spent.lost, "stalls": spent.stalls}
    spans = ", ".join(f"{name} {wording.span(seconds)}" for name, seconds in parts.items())
    text = f"{100 * spent.share:.0f} % effective training of {ran} in {spent.starts} starts"
    return f"{text} ({spans}; {queue} beside)"
