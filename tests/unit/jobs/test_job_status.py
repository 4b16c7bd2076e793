"""The status of jobs that are requeued, or that stopped early with their work saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.cli import exit_codes
from runners.cli.runs import job_end
from runners.core import files, job_record, shell
from runners.core.command_line import CommandLine, Given
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.shell import Result
from runners.jobs import job_status, wording
from runners.launching import end


def comes_back(folder: Path, **facts: object) -> tuple[JobPaths, Job]:
    paths = JobPaths(folder / "train-1")
    paths.root.mkdir()
    given = (Given("image", "a.sif"), Given("requeue", True))
    typed = CommandLine("launch", given, (), "train.py", ("--lr", "0.1"), str(folder))
    job = Job("42", "train", "slurm", str(paths.log), 1.0, "", 10, typed=typed)
    replace(job, **facts).save(paths)  # type: ignore[arg-type]
    return paths, job_record.load(paths)


def squeue_says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(0, text, ""))


def test_a_job_that_comes_back_is_pending_whatever_its_last_attempt_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = comes_back(tmp_path)
    paths.exit.write_text('{"exit_code": 143, "time": 1}')
    squeue_says(monkeypatch, "42|PENDING|BeginTime|2||0:07|1:00|N/A|\n")
    status = job_status.status(paths, job)
    assert status == Status(JobState.PENDING, "BeginTime", 143, 2)
    assert (
        wording.describe(status, job.requeue_limit)
        == "pending (the time at which it may begin has not come, restart 2 of 10)"
    )
    assert job_record.load(paths).state == ""


@pytest.mark.parametrize("word", ["SIGNALING", "COMPLETING", "REQUEUED", "A_NEW_FLAG"])
@pytest.mark.parametrize("record", ['{"exit_code": 143, "time": 1}', None])
def test_a_job_that_is_being_signalled_or_queued_again_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, record: str | None
) -> None:
    """`--wait` ended with 88, or with its first attempt's 143, when it asked in that moment."""
    paths, job = comes_back(tmp_path)
    if record:
        paths.exit.write_text(record)
    monkeypatch.setattr(job_status, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(job_status, "SECONDS_BETWEEN_QUESTIONS", 0.0)
    end = "42|COMPLETED|None|1||0:07|1:00|N/A|\n"
    said = [f"42|{each}|None|1||0:07|1:00|N/A|\n" for each in ("RUNNING", word, "PENDING")]
    answers = iter([*said, end])
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(0, next(answers), ""))
    seen = [status.state for (status,) in job_status.until_end([(paths, job)])]
    assert seen[-1] == JobState.COMPLETED
    assert JobState.PENDING in seen
    assert JobState.UNKNOWN not in seen


def test_a_good_end_is_one_although_slurm_starts_the_job_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = comes_back(tmp_path)
    paths.exit.write_text('{"exit_code": 0, "time": 1}')
    squeue_says(monkeypatch, "42|PENDING|BeginTime|2||0:07|1:00|N/A|\n")
    assert job_status.status(paths, job).state == JobState.COMPLETED


@pytest.mark.parametrize("restarts", [0, 10])
def test_only_a_job_that_may_come_back_is_waited_for_while_slurm_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int
) -> None:
    paths, job = comes_back(tmp_path, requeue_limit=restarts)
    paths.exit.write_text('{"exit_code": 143, "time": 1}')
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(1, "", "no answer"))
    (now,) = next(job_status.until_end([(paths, job)]))
    assert now.state == (JobState.PENDING if restarts else JobState.FAILED)
    assert not (files.read_json(paths.job) or {}).get("state"), (
        "Slurm knows the cause: ask it again"
    )


@pytest.mark.parametrize(
    ("said", "reason"), [("FAILED|NonZeroExitCode", ""), ("TIMEOUT|TimeLimit", "time limit")]
)
def test_a_job_that_saved_its_work_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    paths, job = comes_back(tmp_path)
    paths.exit.write_text('{"exit_code": 91, "time": 1}')
    squeue_says(monkeypatch, f"42|{said}|10||0:07|1:00|N/A|\n")
    status = job_status.status(paths, job)
    assert (status.state, status.reason) == (JobState.STOPPED, reason)
    assert exit_codes.of_job(status, None) == 91
    (first, *_) = job_end.stopped(paths, job, status)
    assert "no checkpoint of ours" in first
    paths.checkpoints.mkdir()
    for step in (90, 123):
        (paths.checkpoints / f"step-{step:08d}.json").touch()
    monkeypatch.chdir(tmp_path)
    told = job_end.stopped(paths, job, status)
    assert "checkpoint at step 123 saved, exit code 91" in told[0]
    again = "runner launch --image a.sif --requeue train.py -- --lr 0.1"
    assert told[1] == f"  go on: {again} --resume {paths.root}"


def test_a_job_killed_after_its_ranks_had_saved_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's KillWait was over before the script could record the end."""
    paths, _ = comes_back(tmp_path, requeue_limit=0)
    paths.stopped.write_text("{}")
    squeue_says(monkeypatch, "42|TIMEOUT|TimeLimit|0||0:07|1:00|N/A|\n")
    for _ in "first", "again":
        status = job_status.status(paths, job_record.load(paths))
        assert (status.state, status.exit_code) == (JobState.STOPPED, 91)


def test_going_on_elsewhere_binds_the_checkpoint_and_resumes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("--resume", "auto", "--resume=x", "--lr", "1")
    elsewhere = str(tmp_path / "elsewhere")
    typed = CommandLine("launch", (Given("nodes", 2),), (), "train.py", args, elsewhere)
    paths, job = comes_back(tmp_path, typed=typed)
    paths.checkpoints.mkdir()
    (paths.checkpoints / "step-00000001.json").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = str(paths.root)
    offered = end.resume_command(paths, job).split()
    assert offered[:4] == ["runner", "launch", "--bind", f"{folder}:{folder}:ro"]
    assert offered[-4:] == ["--lr", "1", "--resume", folder]
    assert offered.count("--resume") == 1


def test_a_cancelled_job_is_cancelled_although_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = comes_back(tmp_path)
    paths.exit.write_text('{"exit_code": 91, "time": 1}')
    squeue_says(monkeypatch, "42|CANCELLED|None|1||0:07|1:00|N/A|\n")
    assert exit_codes.of_job(job_status.status(paths, job), None) == 86
