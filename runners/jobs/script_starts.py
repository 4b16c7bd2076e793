"""When a job's script began and ended, each time: `starts.jsonl` of its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..core import files
from ..core.job_record import JobPaths
from .metrics_tail import events


@dataclass(frozen=True)
class Start:
    """One start of the job's script. `nodes` are Slurm's, "" of other schedulers."""

    began: float
    ended: float
    nodes: str = ""


def of_run(paths: JobPaths) -> list[Start]:
    """Return the starts of a job's script; raises OSError, and DAMAGED.

    A start that was killed hard has no end: it lasted to its last line of metrics.jsonl or longer.
    That file may be long, and is read for such a start alone.
    """
    records = _lines(paths.starts)
    starts = list(_starts(records, ()))
    if all(start.ended > start.began for start in starts):
        return starts
    times = (_time(line) for line in _lines(paths.metrics))
    return list(_starts(records, [time for time in times if time is not None]))


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return list(events(files.read_bytes(path).splitlines()))
    except FileNotFoundError:
        return []


def _starts(records: Sequence[dict[str, Any]], metrics: Sequence[float]) -> Iterator[Start]:
    starts = [record for record in records if "began" in record]
    began = [_moment(record["began"]) for record in starts]
    ends = [_moment(record["ended"]) for record in records if "ended" in record]
    for record, first, last in zip(starts, began, [*began[1:], float("inf")]):
        inside = [time for time in metrics if first <= time < last]
        ended = next((end for end in ends if first <= end <= last), max([first, *inside]))
        yield Start(first, ended, str(record.get("nodes", "")))


def _moment(value: Any) -> float:
    """Return a Unix time; raise one of DAMAGED for a number that is none."""
    return datetime.fromtimestamp(float(value), timezone.utc).timestamp()


def _time(line: dict[str, Any]) -> float | None:
    """Return the Unix time of a line of metrics.jsonl, None where it has none."""
    try:
        return datetime.fromisoformat(line["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None
