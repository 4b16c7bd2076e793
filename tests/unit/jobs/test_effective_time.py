"""How much of a job's time was training that counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runners.core.job_record import Job, JobPaths
from runners.core.model import SchedulerName
from runners.jobs import effective_time
from runners.jobs.effective_time import TimeSpent

from ..tables import each

BEGAN = 1_000_000.0


def line(after: float, step: int, event: str = "step") -> dict[str, Any]:
    when = datetime.fromtimestamp(BEGAN + after, timezone.utc).isoformat()
    return {"event": event, "step": step, "time": when}


def spent(
    tmp_path: Path, starts: Sequence[Mapping[str, float]], metrics: list[dict[str, Any]]
) -> TimeSpent:
    paths = JobPaths(tmp_path)
    records = [{name: BEGAN + after for name, after in one.items()} for one in starts]
    paths.starts.write_text("".join(json.dumps(one) + "\n" for one in records))
    if metrics:
        paths.metrics.write_text("".join(json.dumps(one) + "\n" for one in metrics) + '{"cut')
    found = effective_time.of_run(paths, Job("1", "t", SchedulerName.SLURM, "log", BEGAN))
    assert found is not None
    return found


STARTS = [{"began": 100}, {"ended": 300}, {"began": 400}, {"ended": 600}]
# A step a second from 120 on; a checkpoint at step 100; 220 to 300 is lost; it resumes at 430.
KEPT = [line(120 + n, n) for n in range(10, 101, 10)]
AGAIN = [line(430, 100, "resume"), *(line(430 + n, 100 + n) for n in range(10, 161, 10))]


def test_queue_start_up_and_lost_steps_are_told_apart(tmp_path: Path) -> None:
    found = spent(tmp_path, STARTS, KEPT + AGAIN)
    assert found == TimeSpent(
        2, total=600, queue=200, start_up=50, lost=80, stalls=0, training=270, share=270 / 400
    )
    assert effective_time.in_words(found) == (
        "68 % effective training of 6:40 in 2 starts "
        "(start-up 0:50, lost steps 1:20, stalls 0:00; queue 3:20 beside)"
    )


def test_lost_steps_are_not_counted_where_the_trainer_leaves_their_lines(tmp_path: Path) -> None:
    lost = [line(120 + n, n) for n in range(110, 171, 10)]
    assert spent(tmp_path, STARTS, KEPT + lost + AGAIN).lost == 80


def test_without_a_checkpoint_all_of_a_start_is_lost(tmp_path: Path) -> None:
    again = [line(420 + n, n) for n in range(10, 161, 10)]
    found = spent(tmp_path, STARTS, KEPT + again)
    assert (found.lost, found.start_up, found.training) == (200, 20, 180)


def test_a_step_that_takes_far_longer_than_usual_is_a_stall(tmp_path: Path) -> None:
    late = [*KEPT[:5], *(line(220 + n, n) for n in range(60, 101, 10))]
    found = spent(tmp_path, [{"began": 100}, {"ended": 330}], late)
    assert (found.stalls, found.training) == (100, 110)


def test_a_start_that_was_killed_lasted_to_its_last_line(tmp_path: Path) -> None:
    found = spent(tmp_path, [{"began": 100}, *STARTS[2:]], KEPT + AGAIN)
    assert (found.queue, found.lost) == (100 + 180, 0)


def test_a_start_that_ended_before_its_first_step_is_start_up(tmp_path: Path) -> None:
    starts = [{"began": 10}, {"ended": 40}, {"began": 100}, {"ended": 300}]
    found = spent(tmp_path, starts, KEPT)
    assert (found.start_up, found.queue) == (30 + 20, 10 + 60)


@each([], [{"event": "step"}])
def test_a_trainer_that_writes_no_steps_has_no_share(
    tmp_path: Path, metrics: list[dict[str, Any]]
) -> None:
    found = spent(tmp_path, STARTS, metrics)
    assert (found.queue, found.training, found.share) == (200, None, None)
    assert effective_time.in_words(found) == (
        "6:40 in 2 starts, training not measured (queue 3:20 beside)"
    )


def test_a_run_without_records_is_not_told_of(tmp_path: Path) -> None:
    assert (
        effective_time.of_run(JobPaths(tmp_path), Job("1", "t", SchedulerName.SLURM, "log", BEGAN))
        is None
    )
