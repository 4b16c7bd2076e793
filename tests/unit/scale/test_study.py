"""A study on disk: what its runs left, and how it goes on."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core import locks
from runners.core.job_record import JobPaths
from runners.scale import measure, study
from runners.scale.study import PointState, StudyPaths, StudyRecord
from runners.scale.study_request import Size, StudyRequest

from .. import sentences
from .scaled import GLOO, leave, question

ASKED = StudyRecord(question(variants=(GLOO,)), ("scale", "torch_mnist"), "/scratch/ada")


@pytest.fixture
def paths(tmp_path: Path) -> StudyPaths:
    """The paths of a study that has begun."""
    found = StudyPaths(tmp_path / "study")
    study.begin(found, ASKED)
    return found


def stands(paths: StudyPaths, asked: StudyRequest = ASKED.question) -> dict[str, PointState]:
    return {status.point.key: status.state for status in study.statuses(paths, asked, {})}


def test_a_run_is_measured_from_what_it_left(tmp_path: Path) -> None:
    run = JobPaths(tmp_path / "run")
    leave(run, 0, epochs=3, accuracy=0.9, startup_seconds=2.0)
    found = measure.read(run, 2, "gloo", 1, drop=1)
    assert (found.rate, found.rates, found.epochs) == (200, (200, 200), 3)
    assert (found.first_epoch_seconds, found.epoch_seconds) == (2.0, 0.5)
    assert (found.launch_seconds, found.job_seconds, found.training_seconds) == (4.5, 10, 3.0)
    assert (found.ranks, found.hosts, found.accuracy) == (2, ("n1", "n2"), 0.9)


def test_the_rate_is_that_of_all_steady_epochs_together(tmp_path: Path) -> None:
    run = JobPaths(tmp_path / "run")
    leave(run, 0)
    with (run.root / "metrics.jsonl").open("a") as file:
        line = {"event": "epoch", "seconds": 2.0, "samples_per_s": 50.0}
        file.write(json.dumps(line) + '\n{"event": "epoch", "sec')  # the last line was cut
    assert measure.read(run, 2, "", 1, drop=1).rate == pytest.approx(300 / 3)


def test_a_trainer_of_ones_own_needs_a_rate_in_its_result_only(tmp_path: Path) -> None:
    run = JobPaths(tmp_path / "run")
    run.root.mkdir()
    run.result.write_text(json.dumps({"tokens_per_s": 5000, "world_size": 4}))
    found = measure.read(run, 1, "", 1, drop=1)
    assert (found.unit, found.rate, found.ranks, found.epoch_seconds) == ("tokens", 5000, 4, None)


@pytest.mark.parametrize(("epochs", "result"), [(1, {"samples_per_s": None}), (3, None)])
def test_what_tells_no_speed_says_why(
    tmp_path: Path, epochs: int, result: dict[str, None] | None
) -> None:
    run = JobPaths(tmp_path / "run")
    leave(run, 0, epochs, **(result or {}))
    if result is None:
        run.result.unlink()
    with sentences.refuses(measure.NotMeasured):
        measure.read(run, 1, "", 1, drop=1)


def test_folders_tell_how_each_run_stands(paths: StudyPaths) -> None:
    leave(JobPaths(paths.runs / "1n-gloo-r1"), 0, state="")
    leave(JobPaths(paths.runs / "1n-gloo-r2"), None, state="")
    leave(JobPaths(paths.runs / "2n-gloo-r1"), 1, state="FAILED")
    assert stands(paths) == {
        "1n-gloo-r1": PointState.MEASURED,
        "1n-gloo-r2": PointState.OPEN,
        "2n-gloo-r1": PointState.FAILED,
        "2n-gloo-r2": PointState.TO_DO,
    }


def test_a_later_attempt_counts_and_a_measured_one_stays(paths: StudyPaths) -> None:
    point = next(p for p in ASKED.question.points() if p.key == "1n-gloo-r1")
    assert study.next_attempts(paths, [point])[0].root.name == "1n-gloo-r1"
    leave(JobPaths(paths.runs / "1n-gloo-r1"), None, state="TIMEOUT")
    assert stands(paths)["1n-gloo-r1"] is PointState.FAILED
    assert study.next_attempts(paths, [point])[0].root.name == "1n-gloo-r1.2"
    leave(JobPaths(paths.runs / "1n-gloo-r1.2"), 0, state="COMPLETED")
    assert stands(paths)["1n-gloo-r1"] is PointState.MEASURED
    leave(JobPaths(paths.runs / "1n-gloo-r1.3"), 1, state="FAILED")
    assert stands(paths)["1n-gloo-r1"] is PointState.MEASURED


def test_a_folder_that_was_never_submitted_is_to_do(paths: StudyPaths) -> None:
    (paths.runs / "1n-gloo-r1").mkdir()
    assert stands(paths)["1n-gloo-r1"] is PointState.TO_DO


def test_a_failure_says_who_it_was(paths: StudyPaths) -> None:
    run = JobPaths(paths.runs / "1n-gloo-r1")
    leave(run, 1, state="FAILED")
    run.failures.mkdir()
    record = {"rank": 1, "host": "n2", "exit_code": 1, "message": "ValueError: bad", "time": 1}
    (run.failures / "rank-1.json").write_text(json.dumps(record))
    found = {
        status.point.key: status.reason for status in study.statuses(paths, ASKED.question, {})
    }
    assert found["1n-gloo-r1"] == "rank 1@n2: ValueError: bad"


def test_the_same_question_goes_on_and_a_larger_one_grows(paths: StudyPaths) -> None:
    assert study.begin(paths, ASKED) == ASKED
    larger = replace(ASKED.question, sizes=(Size(4),), repeats=1)
    grown = study.begin(paths, replace(ASKED, question=larger)).question
    assert grown.sizes == (Size(1), Size(2), Size(4))
    assert grown.repeats == 2
    assert study.load(paths).question == grown


def test_another_question_is_refused_with_what_differs(paths: StudyPaths) -> None:
    other = replace(ASKED.question, args=("--epochs", "9"))
    with sentences.raises("study-of-other-command", f"--study {paths.root}-2") as error:
        study.begin(paths, replace(ASKED, question=other))
    assert "args: --epochs 6 there, --epochs 9 now" in error.value.evidence
    assert study.load(paths).question == ASKED.question


def test_no_study_and_a_damaged_one(paths: StudyPaths, tmp_path: Path) -> None:
    with sentences.raises("study-not-found"):
        study.load(StudyPaths(tmp_path))
    paths.asked.write_text('{"question": {}}')
    with sentences.raises("study-unreadable"):
        study.load(paths)


def test_one_at_a_time(paths: StudyPaths) -> None:
    def alone() -> AbstractContextManager[None]:
        return locks.try_exclusive(paths.lock, "another is at work on it")

    with alone(), sentences.raises("lock-held") as refused, alone():
        pass
    assert f"process {os.getpid()} " in refused.value.evidence
    with alone():
        pass
