"""Stalls: no step for too long, and the ranks that differ from those that wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import runners.injob.rank
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.jobs import metrics_tail, stalls
from runners.jobs.metrics_tail import Reading
from runners.jobs.stalls import RankSample
from runners.launching import stall_notice
from runners.launching.stall_notice import Stalls

READING = Reading(step=120, time=1000.0)
WAITS = RankSample(0, "n1", "S", 0.05, 900)
SHORT = (
    "at this pace the training needs 1:05:20 more, and its limit comes in 1:00: a longer --time, "
    "or --requeue, which resumes from checkpoints"
)
INSPECTOR = """\
0@n1 | [2026-11-21 20:00:00.1: W /horovod/common/stall_inspector.cc:107] One or more tensors were
0@n1 | Missing ranks:
0@n1 | 1: [DistributedOptimizer.gradient.0, loss]
0@n1 | 3: [loss]
0@n1 |   step 10/100  epoch 1
"""


def test_a_run_has_stalled_when_its_last_step_is_long_ago() -> None:
    assert stalls.find_stall(READING, 1299.0, 300) is None
    assert stalls.find_stall(None, 9999.0, 300) is None  # it has not begun to make steps
    found = stalls.find_stall(READING, 1303.0, 300)
    assert found is not None
    assert stalls.in_words(found).startswith("no step for 5 min 3 s (the last one: 120); no rank")


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (RankSample(1, "n2", "T", 0.0, 0), "it is stopped (state T)"),
        (RankSample(1, "n2", "D", 0.0, 0), "it waits for a disk or a file server"),
        (RankSample(1, "n2", "R", 0.97, 2), "it computes, and the others wait"),
        (RankSample(1, "n2", "S", 0.0, 0), "it sleeps, and the others look for it"),
    ],
)
def test_the_rank_that_does_something_else_lags(sample: RankSample, why: str) -> None:
    found = stalls.find_stall(READING, 1400.0, 300, samples=[WAITS, sample])
    assert found is not None
    (line,) = found.lags
    assert line.startswith(f"rank 1@n2: {why}")


@pytest.mark.parametrize(
    ("step", "left", "needed"),
    [
        (20, 60.0, 3920.0),  # 80 s for 20 steps, and 980 are left
        (20, 3900.0, None),  # within what the pace of a few steps can tell
        (5, 60.0, None),
        (20, None, None),
    ],
)
def test_a_limit_that_comes_before_the_end_is_seen(
    step: int, left: float | None, needed: float | None
) -> None:
    first, latest = Reading(0, 1000.0, 1000), Reading(step, 1000.0 + 4 * step, 1000)
    assert stalls.short_of_time(first, latest, left) == needed


def test_that_it_comes_is_said_once_and_not_of_a_job_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_notice, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(stalls, "find_stall", lambda *rest: None)
    paths = JobPaths(tmp_path)
    job = Job("1", "t", "slurm", str(paths.log), 1.0, "")
    running = Status(JobState.RUNNING, left=60.0)
    for restarts, said in ((0, ["", SHORT, ""]), (3, ["", "", ""])):
        notices, news = Stalls(paths, replace(job, restarts=restarts), 300), []
        for step in (0, 20, 40):
            reading = Reading(step, 1000.0 + 4 * step, 1000)
            monkeypatch.setattr(metrics_tail, "last", lambda paths, one=reading: one)
            news.append(notices.news(running))
        assert news == said


def test_ranks_that_all_wait_alike_are_not_blamed() -> None:
    assert stalls.lagging([WAITS, RankSample(1, "n2", "S", 0.05, 880)]) == []


def test_what_horovod_says_of_missing_ranks_is_read() -> None:
    lines = INSPECTOR.splitlines()
    assert stalls.missing(lines) == [1, 3]
    assert stalls.missing(lines[:1]) == []
    found = stalls.find_stall(
        READING, 1400.0, 300, lines, [WAITS, RankSample(1, "n2", "S", 0.0, 900)]
    )
    assert found is not None
    assert found.lags == ("rank 1@n2: Horovod misses it", "rank 3: Horovod misses it")


def test_lines_of_the_nodes_are_read_and_others_passed_over() -> None:
    assert stalls.parse("srun: lua: hello\n1 n2 T 0.00 3\n") == [RankSample(1, "n2", "T", 0.0, 3)]


def test_a_node_tells_what_its_ranks_do(tmp_path: Path) -> None:
    """A real shim with a trainer that is stopped."""
    (tmp_path / "train.py").write_text(
        "import time\nopen('started', 'w').close()\ntime.sleep(60)\n"
    )
    rank = Path(runners.injob.rank.__file__).parent
    environment = {**os.environ, "RUNNER_TASK_RANK": "0", "RUNNER_TASK_COUNT": "1"}
    environment["RUNNER_TASK_JOB"] = "job"
    options = ["--launcher", "local", "--controller", "mpi", "--run-dir", str(tmp_path)]
    command = [sys.executable, str(rank.parent), "rank", *options, "--", "train.py"]
    shim = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        trainer = int(Path(f"/proc/{shim.pid}/task/{shim.pid}/children").read_text())
        os.kill(trainer, signal.SIGSTOP)
        sample = [sys.executable, str(rank / "sample_ranks.py"), str(tmp_path)]
        (seen,) = stalls.parse(subprocess.run(sample, capture_output=True, text=True).stdout)
        assert (seen.rank, seen.state, seen.wakes) == (0, "T", 0)
    finally:
        shim.kill()
        shim.wait()
