"""How runs stand: one value with typed fields, from the scheduler's answer and the run's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.core.job_record import JobState, Status
from runners.core.progress import Listener
from runners.injob import problems
from runners.monitoring import run_status

from ..failures import leave, words
from ..runs import a_run, squeue_says

STEP = {"event": "step", "step": 100, "steps": 368, "epoch": 1, "loss": 0.5, "samples_per_s": 80.0}


def test_a_run_that_trains(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1", varied={"lr": "0.1"})
    line = {**STEP, "time": "2026-11-21T20:00:00.500+00:00"}
    paths.metrics.write_text(json.dumps(line) + "\n")
    running = Status(JobState.RUNNING, "", None, 2, "n[1-2]", 61.0, 3539.0)
    assert vars(run_status.of_run(paths, job, running)) == {
        "id": "42",
        "name": "train",
        "state": JobState.RUNNING,
        "reason": "",
        "why": "",
        "restarts": 2,
        "exit_code": None,
        "submitted": 1.0,
        "start_expected": None,
        "nodes": "n[1-2]",
        "elapsed": 61.0,
        "left": 3539.0,
        "folder": paths.root,
        "varied": {"lr": "0.1"},
        "step": 100,
        "steps": 368,
        "epoch": 1,
        "loss": 0.5,
        "rate": 80.0,
        "unit": "samples",
    }


def test_a_run_that_waits_says_why_in_words_and_when_it_may_start(tmp_path: Path) -> None:
    status = Status(JobState.PENDING, "Priority", start=2e9)
    told = run_status.of_run(*a_run(tmp_path / "train-1"), status)
    assert (told.reason, told.why) == ("Priority", "other jobs are before it")
    assert (told.start_expected, told.step, told.unit) == (2e9, None, None)


def test_a_failed_run_has_the_exit_code_and_the_words_of_who_failed_first(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1")
    leave(paths, 1, 10.0, words("ValueError: boom"), 7)
    leave(paths, 0, 9.0, problems.of_process(143, []), 143)
    told = run_status.of_run(paths, job, Status(JobState.FAILED, "", 143, left=9.0))
    assert (told.exit_code, told.left) == (7, None)
    assert "rank 1@n1" in told.why
    assert "ValueError: boom" in told.why


def test_only_of_a_run_that_stopped_early_is_there_a_step_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = a_run(tmp_path / "train-1")
    paths.checkpoints.mkdir()
    (paths.checkpoints / "step-00000120.json").touch()
    paths.exit.write_text('{"exit_code": 91, "time": 1}')
    squeue_says(monkeypatch, "42|FAILED|NonZeroExitCode|0||0:07|1:00|N/A|\n")
    stopped = run_status.details(paths, job, Listener())
    assert (stopped.status.state, stopped.saved_step) == (JobState.STOPPED, 120)
    assert f"--resume {paths.root}" in stopped.resume
    squeue_says(monkeypatch, "42|TIMEOUT|TimeLimit|0||0:07|1:00|N/A|\n")
    paths.exit.write_text('{"exit_code": 143, "time": 1}')
    ended = run_status.details(paths, job, Listener())
    assert (ended.status.state, ended.saved_step, ended.resume) == (JobState.TIMEOUT, None, "")


def test_programs_read_names_in_the_place_of_our_types(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1", varied={"lr": "0.1"})
    waiting = Status(JobState.PENDING, "Priority", start=0.0)
    facts = run_status.facts(run_status.of_run(paths, job, waiting))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["state"], facts["folder"]) == ("PENDING", str(paths.root))
    assert facts["start_expected"][:3] in ("197", "196")


def test_programs_read_of_one_run_only_what_there_is_to_say(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1", state="STOPPED")
    (paths.root / "checkpoints").mkdir()
    (paths.root / "checkpoints/step-00000007.json").touch()
    paths.weights.write_text('{"version": 1, "result": "same", "text": "on 2 ranks"}')
    known = run_status.details(paths, job, Listener())
    facts = run_status.facts_of_details(known)
    more = {name: value for name, value in facts.items() if name not in vars(known.status)}
    assert more == {
        "saved_step": 7,
        "go_on": known.resume,
        "weights": "same: on 2 ranks",
        "first_to_fail": None,
    }
