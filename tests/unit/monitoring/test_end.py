"""How a job ended: its exit code, whether that has to be explained, how to go on, its result."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core import files, plan_record
from runners.core.command_line import CommandLine, Given
from runners.core.job_record import JobPaths, JobState, Status
from runners.monitoring import end, result_facts

from .. import sentences
from ..failures import leave, words
from ..in_process import runner
from ..runs import a_run, ends

DONE = Status(JobState.COMPLETED)


def typed(folder: Path, *args: str) -> CommandLine:
    given = (Given("image", "a.sif"), Given("requeue", True))
    return CommandLine("launch", given, (), "train.py", args, str(folder))


def with_checkpoints(paths: JobPaths, *steps: int) -> None:
    paths.checkpoints.mkdir()
    for step in steps:
        (paths.checkpoints / f"step-{step:08d}.json").touch()


@pytest.mark.parametrize(
    ("status", "first", "code"),
    [
        (Status(JobState.COMPLETED), None, 0),
        (Status(JobState.FAILED, "", 143), 7, 7),
        (Status(JobState.FAILED, "", 143), None, 143),
        (Status(JobState.FAILED), None, 1),
        (Status(JobState.TIMEOUT, "", 143), 7, 83),
        (Status(JobState.CANCELLED, "", 91), None, 86),
        (Status(JobState.STOPPED, "", 91), None, 91),
        (Status(JobState.UNKNOWN), None, 88),
    ],
)
def test_the_first_ranks_code_comes_before_the_jobs_and_the_states_before_both(
    status: Status, first: int | None, code: int
) -> None:
    assert end.exit_code_of(status, first) == code


def test_a_failed_job_ends_with_its_first_ranks_code_and_is_explained(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1")
    leave(paths, 1, 10.0, words("ValueError: boom"), 7)
    ended = end.of_job(paths, job, Status(JobState.FAILED, "", 143))
    assert ended.exit_code == 7
    assert ended.explanation
    assert "boom" in ended.explanation.what
    assert (ended.resume, ended.by_user, ended.lacks_result) == ("", False, False)


def test_ones_own_cancelling_is_explained_to_programs_alone(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1")
    own = Status(JobState.CANCELLED, f"by {os.getuid()}")
    other = Status(JobState.CANCELLED, f"by {os.getuid() + 1}")
    assert end.of_job(paths, job, own).by_user
    assert end.of_job(paths, job, own).explanation is None
    assert end.of_job(paths, job, own, explain_all=True).explanation
    assert not end.of_job(paths, job, other).by_user
    assert end.of_job(paths, job, other).explanation


def test_a_job_that_stopped_early_goes_on_from_its_newest_checkpoint(here: Path) -> None:
    paths, job = a_run(here / "train-1", typed=typed(here, "--lr", "0.1"))
    stopped = Status(JobState.STOPPED, "time limit", 91)
    assert end.of_job(paths, job, stopped).saved_step is None
    assert end.of_job(paths, job, stopped).resume == ""
    with_checkpoints(paths, 90, 123)
    ended = end.of_job(paths, job, stopped)
    assert (ended.exit_code, ended.saved_step, ended.explanation) == (91, 123, None)
    again = "runner launch --image a.sif --requeue train.py -- --lr 0.1"
    assert ended.resume == f"{again} --resume {paths.root}"


def test_going_on_elsewhere_binds_the_checkpoint_and_resumes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = ("--resume", "auto", "--resume=x", "--lr", "1")
    paths, job = a_run(tmp_path / "train-1", typed=typed(elsewhere, *before))
    with_checkpoints(paths, 1)
    monkeypatch.chdir(elsewhere)
    folder = str(paths.root)
    offered = end.resume_command(paths, job).split()
    assert offered[:4] == ["runner", "launch", "--bind", f"{folder}:{folder}:ro"]
    assert offered[-4:] == ["--lr", "1", "--resume", folder]
    assert offered.count("--resume") == 1


def test_only_a_job_that_ended_well_lacks_a_result(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1")
    assert end.of_job(paths, job, DONE).lacks_result
    assert not end.of_job(paths, job, Status(JobState.FAILED, "", 1)).lacks_result
    paths.result.write_text('{"accuracy": 0.97}')
    ended = end.of_job(paths, job, DONE)
    assert (ended.result, ended.lacks_result) == ({"accuracy": 0.97}, False)


@pytest.mark.parametrize("text", ["[1, 2]", '{"accuracy": '])
def test_an_odd_result_is_told_and_changes_no_exit_code(tmp_path: Path, text: str) -> None:
    paths, job = a_run(tmp_path / "train-1")
    paths.result.write_text(text)
    ended = end.of_job(paths, job, DONE)
    assert (ended.exit_code, ended.result, ended.lacks_result) == (0, None, False)
    assert ended.odd.startswith(f"cannot read {paths.result}")
    with sentences.raises("result-missing", "runner status 42, runner logs 42") as told:
        end.result(paths, replace(job, state="COMPLETED"))
    assert f"cannot read {paths.result}" in told.value.evidence


def test_where_a_profile_and_a_timeline_are(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert list(end.traces(paths)) == []
    paths.profile.mkdir()
    files.write_json(paths.plan, {"version": plan_record.VERSION, "timeline": "t.json"})
    profile, timeline = end.traces(paths)
    assert profile.startswith(f"profile: {tmp_path}/profile (")
    assert timeline.startswith(f"timeline: {tmp_path}/t.json (")


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        ("FAILED", 95, "failed (exit code 95)"),
        ("TIMEOUT", 143, "ended: time limit (exit code 83)"),
        ("COMPLETED", 0, ""),
        ("STOPPED", 91, ""),
    ],
)
def test_the_result_of_a_job_that_failed_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    code: int,
    said: str,
) -> None:
    paths, _ = a_run(tmp_path / "train-1", state=state)
    ends(paths, code)
    paths.result.write_text('{"loss": 0.5}')
    done = runner(monkeypatch, capsys, "result", str(paths.root), "--json")
    assert json.loads(done.stdout) == {"loss": 0.5}
    assert said in done.stderr
    assert ("try: runner explain 42" in done.stderr) is bool(said)
    paths.result.unlink()
    done = runner(monkeypatch, capsys, "result", str(paths.root))
    assert done.returncode != 0
    assert said in done.stderr
    assert ("runner explain 42" in done.stderr) is bool(said)


def test_programs_read_how_a_job_ended_and_why(tmp_path: Path) -> None:
    paths, job = a_run(tmp_path / "train-1")
    leave(paths, 1, 1.0, words("ValueError: boom"), 7)
    facts = end.facts(end.of_job(paths, job, Status(JobState.FAILED, "", 1)))
    assert list(facts) == ["id", "folder", "state", "exit_code", "explanation", "result"]
    assert (facts["state"], facts["exit_code"], facts["result"]) == ("FAILED", 7, None)
    assert facts["explanation"]["rank"] == 1
    assert end.facts(end.of_job(paths, job, DONE))["explanation"] is None


@pytest.mark.parametrize(("text", "id"), [("", "log-empty"), (None, "log-unreadable")])
def test_a_log_that_tells_nothing_is_refused(tmp_path: Path, text: str | None, id: str) -> None:
    path = tmp_path / "log"
    if text is not None:
        path.write_text(text)
    with sentences.raises(id):
        end.explain_text(path, "a log")


def test_of_a_result_ten_facts_are_the_main_ones() -> None:
    details = {"arguments": {"lr": 1}, "use": {"cpus": 4}, "versions": {}}
    result = {**details, **{f"own{number}": number for number in range(30)}}
    assert list(result_facts.main(result)) == [f"own{number}" for number in range(10)]
    assert set(result) - set(result_facts.without_use(result)) == {"use"}
