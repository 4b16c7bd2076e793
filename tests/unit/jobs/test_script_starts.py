"""When a job's script began and ended, from what its folder has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from runners.core.job_record import JobPaths
from runners.jobs import script_starts

BEGAN = 1_000_000.0
STARTS: list[dict[str, Any]] = [
    {"began": 100, "nodes": "n[1-2]"},
    {"ended": 300},
    {"began": 400},
    {"ended": 600},
]


def lasted(
    tmp_path: Path, records: Sequence[Mapping[str, Any]], metrics: Sequence[float] = ()
) -> list[tuple[float, float]]:
    """Return when each start began and ended, in seconds after BEGAN."""
    paths = JobPaths(tmp_path)
    times = ("began", "ended")
    moved = [{n: v + BEGAN if n in times else v for n, v in record.items()} for record in records]
    paths.starts.write_text("".join(json.dumps(record) + "\n" for record in moved))
    when = [datetime.fromtimestamp(BEGAN + after, timezone.utc).isoformat() for after in metrics]
    lines = [json.dumps({"event": "step", "step": 1, "time": time}) for time in when]
    paths.metrics.write_text("\n".join([*lines, '{"event": "step"}', '{"cut']))
    starts = script_starts.of_run(paths)
    return [(start.began - BEGAN, start.ended - BEGAN) for start in starts]


def test_each_start_has_its_end_and_its_nodes(tmp_path: Path) -> None:
    assert lasted(tmp_path, STARTS, [900]) == [(100, 300), (400, 600)]
    first, second = script_starts.of_run(JobPaths(tmp_path))
    assert (first.nodes, second.nodes) == ("n[1-2]", "")


@pytest.mark.parametrize(
    ("records", "metrics", "expected"),
    [
        ([{"began": 100}, *STARTS[2:]], [150, 220, 430], [(100, 220), (400, 600)]),
        ([{"began": 100}, *STARTS[2:]], [430], [(100, 100), (400, 600)]),
        ([*STARTS[:3]], [430, 470], [(100, 300), (400, 470)]),
    ],
)
def test_a_start_that_was_killed_lasted_to_its_last_line(
    tmp_path: Path,
    records: list[dict[str, Any]],
    metrics: list[float],
    expected: list[tuple[float, float]],
) -> None:
    assert lasted(tmp_path, records, metrics) == expected


def test_a_run_without_records_has_no_starts(tmp_path: Path) -> None:
    assert script_starts.of_run(JobPaths(tmp_path)) == []
