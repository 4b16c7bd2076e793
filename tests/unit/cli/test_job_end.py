"""What is printed when a job has ended, and when several have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runners.cli.runs import job_end, several_runs
from runners.core.command_line import CommandLine
from runners.core.job_record import JobState, Status
from runners.injob import problems
from runners.monitoring import end, run_group

from ..failures import leave
from ..runs import a_run

DONE = Status(JobState.COMPLETED)


def test_a_traceback_that_was_followed_is_not_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "t-1")
    error = problems.of_exception(1, ValueError("boom"), ["Traceback", "ValueError: boom"])
    leave(paths, 1, 1.0, error)
    ended = end.of_job(paths, job, Status(JobState.FAILED, "", 1))
    for shown, count in (((), 1), ((0,), 1), ((1,), 0), (None, 0)):
        job_end.finish(ended, shown)
        assert capsys.readouterr().err.count("traceback:") == count


def test_a_job_that_stopped_early_says_what_was_saved_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "t-1", typed=CommandLine("launch", trainer="train.py"))
    stopped = Status(JobState.STOPPED, "time limit", 91)
    job_end.show(end.of_job(paths, job, stopped))
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.endswith("stopped early (time limit): no checkpoint of ours, exit code 91")
    paths.checkpoints.mkdir()
    (paths.checkpoints / "step-00000123.json").touch()
    job_end.show(end.of_job(paths, job, stopped))
    first, go_on, log = capsys.readouterr().err.splitlines()
    assert first.endswith(": checkpoint at step 123 saved, exit code 91")
    assert go_on == f"  go on: {end.resume_command(paths, job)}"
    assert log == f"  log: {job.log}"


def test_a_job_that_left_no_result_is_told_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "train-1")
    job_end.finish(end.of_job(paths, job, DONE))
    told = capsys.readouterr().err
    assert "no result.json in OUTPUT_DIR: write one" in told
    assert "see docs/start/own-trainer.md" in told
    paths.result.write_text('{"accuracy": 0.97}')
    job_end.finish(end.of_job(paths, job, DONE))
    assert "no result.json" not in capsys.readouterr().err


def test_the_ten_main_facts_of_a_result_are_shown_and_where_the_rest_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "train-1")
    details = {"startup_seconds": 5.0, "versions": {"torch": "2.13"}, "weights": {"version": 1}}
    result = {"accuracy": 0.97, **details, "arguments": ["--epochs"], "hosts": ["n1", "n2"]}
    paths.result.write_text(json.dumps(result))
    job_end.finish(end.of_job(paths, job, DONE))
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["accuracy  0.97", "hosts     n1, n2"]
    assert f"the whole result: runner result {job.id}" in printed.err
    paths.result.write_text(json.dumps({f"own{number}": number for number in range(30)}))
    job_end.finish(end.of_job(paths, job, DONE))
    assert len(capsys.readouterr().out.splitlines()) == 10
    paths.result.write_text('{"accuracy": 0.97}')
    job_end.finish(end.of_job(paths, job, DONE))
    assert "the whole result" not in capsys.readouterr().err


def test_an_odd_result_is_told_to_programs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "train-1")
    paths.result.write_text("[1, 2]")
    ended = end.of_job(paths, job, Status(JobState.FAILED, "", 7), explain_all=True)
    job_end.finish(ended, as_json=True)
    printed = capsys.readouterr()
    assert f"cannot read {paths.result}" in printed.err
    facts = json.loads(printed.out)
    assert (facts["result"], facts["state"], facts["exit_code"]) == (None, "FAILED", 7)
    assert facts["explanation"]["job"] == "42"
    job_end.finish(end.of_job(paths, job, DONE))
    assert "no result.json" not in capsys.readouterr().err


def test_the_odd_result_of_one_run_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [a_run(tmp_path / name) for name in ("train-1", "train-2")]
    runs[0][0].result.write_text("[1, 2]")
    runs[1][0].result.write_text('{"accuracy": 0.97}')
    results = run_group.results(runs, [DONE] * 2)
    several_runs.show(results, as_json=True)
    printed = capsys.readouterr()
    assert [run["result"] for run in json.loads(printed.out)] == [None, {"accuracy": 0.97}]
    assert f"cannot read {runs[0][0].result}" in printed.err
    several_runs.show(results, as_json=False)
    assert "0.97" in capsys.readouterr().out


def test_the_end_of_a_job_says_where_a_profile_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, job = a_run(tmp_path / "train-1")
    paths.profile.mkdir()
    job_end.finish(end.of_job(paths, job, DONE))
    assert f"profile: {paths.profile} (" in capsys.readouterr().err
    job_end.finish(end.of_job(paths, job, DONE), quiet=True)
    assert capsys.readouterr().err == ""
