"""The newest numbers of a run that trains."""

from __future__ import annotations

import json
from pathlib import Path

from runners.core.job_record import JobPaths
from runners.jobs import metrics_tail
from runners.jobs.metrics_tail import Reading

STEP = {"event": "step", "step": 100, "epoch": 1, "loss": 0.5, "samples_per_s": 80.0}
EPOCH = {"event": "epoch", "step": 120, "epoch": 1, "loss": 0.4, "samples_per_s": 81.0}
WHEN = {"time": "2026-11-21T20:00:00.500+00:00"}
THEN = 1795291200.5


def test_the_newest_numbers(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert metrics_tail.last(paths) is None
    lines = [{**STEP, **WHEN}, {**EPOCH, "steps": 480, **WHEN}]
    paths.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "st')
    assert metrics_tail.last(paths) == Reading(120, THEN, 480, 1, 0.4, 81.0, "samples")


def test_only_the_tail_is_read(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    line = json.dumps({**STEP, **WHEN}) + "\n"
    paths.metrics.write_text("x" * 10 * metrics_tail.TAIL + "\n" + line)
    assert metrics_tail.last(paths) == Reading(100, THEN, None, 1, 0.5, 80.0, "samples")
    paths.metrics.write_text("[1]\n\n" + '{"step": 1}\n')
    assert metrics_tail.last(paths) is None
