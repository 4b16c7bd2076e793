"""The status of jobs: that ended, come back, or stopped early; when a scheduler is asked for it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core import files, job_record, shell
from runners.core.command_line import CommandLine, Given
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.core.shell import Result
from runners.jobs import job_status
from runners.monitoring import wording

from ..listener import Told
from ..runs import a_run, ends, squeue_says


def comes_back(folder: Path, **facts: object) -> tuple[JobPaths, Job]:
    paths = JobPaths(folder / "train-1")
    paths.root.mkdir(parents=True)
    given = (Given("image", "a.sif"), Given("requeue", True))
    typed = CommandLine("launch", given, (), "train.py", ("--lr", "0.1"), str(folder))
    job = Job("42", "train", SchedulerName.SLURM, str(paths.log), 1.0, "", 10, typed=typed)
    replace(job, **facts).save(paths)  # type: ignore[arg-type]
    return paths, job_record.load(paths)


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
    said = [f"42|{state}|None|1||0:07|1:00|N/A|\n" for state in ("RUNNING", word, "PENDING")]
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


@pytest.mark.parametrize("limit", [0, 10])
def test_only_a_job_that_may_come_back_is_waited_for_while_slurm_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    paths, job = comes_back(tmp_path, requeue_limit=limit)
    paths.exit.write_text('{"exit_code": 143, "time": 1}')
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(1, "", "no answer"))
    (now,) = next(job_status.until_end([(paths, job)]))
    assert now.state == (JobState.PENDING if limit else JobState.FAILED)
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


def test_a_cancelled_job_is_cancelled_although_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = comes_back(tmp_path)
    paths.exit.write_text('{"exit_code": 91, "time": 1}')
    squeue_says(monkeypatch, "42|CANCELLED|None|1||0:07|1:00|N/A|\n")
    assert job_status.status(paths, job).state == JobState.CANCELLED


def test_a_silent_scheduler_is_told_of_and_folders_say_what_they_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    runs = [comes_back(tmp_path / name) for name in ("waits", "ended")]
    runs[1][0].exit.write_text('{"exit_code": 3, "time": 1}')
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(1, "", "no answer"))
    waits, ended = job_status.last_known(runs, told)
    (warning,) = told.texts
    assert warning.startswith("warning: ")
    assert "no answer" in warning
    assert (waits.state, bool(waits.reason)) == (JobState.UNKNOWN, True)
    assert waits.reason in warning
    assert (ended.state, ended.exit_code, ended.reason) == (JobState.FAILED, 3, "")


def test_history_is_asked_once_for_all_that_were_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], env: dict[str, str] | None = None) -> Result:
        asked.append(argv)
        return Result(0, "41|NODE_FAIL|n1|9\n" if argv[0] == "sacct" else "", "")

    monkeypatch.setattr(shell, "run", run)
    runs = [a_run(tmp_path / id, id=id) for id in ("40", "41", "42")]
    runs[0][0].exit.write_text('{"exit_code": 0, "time": 12, "began": 2.5}')
    runs[0][0].starts.write_text('{"began": 2.5}\n{"ended": 12}\n')
    found = job_status.statuses(runs)
    assert [status.state.name for status in found] == ["COMPLETED", "NODE_FAIL", "UNKNOWN"]
    assert (found[0].elapsed, found[1].elapsed, found[1].nodes) == (9.5, 9, "n1")
    assert [argv[0] for argv in asked] == ["squeue", "sacct"]
    assert asked[1][-1] == "41,42"


def test_an_end_stays_known_with_its_nodes_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path / "train-1")
    line = "42|TIMEOUT|TimeLimit|0|n[1-2]|1:00:02|0:00|1|\n"
    monkeypatch.setattr(shell, "run", lambda argv, env: Result(0, line, ""))
    job_status.status(*run)
    monkeypatch.setattr(shell, "run", lambda argv, env: pytest.fail("asked again"))
    later = job_status.status(run[0], job_record.load(run[0]))
    assert (later.state.name, later.nodes, later.elapsed) == ("TIMEOUT", "n[1-2]", 3602)


def test_a_cancelled_job_is_cancelled_for_who_follows_it_too(tmp_path: Path) -> None:
    """One that finished well at the same moment has finished well."""
    for code, state in ((143, "CANCELLED"), (0, "COMPLETED")):
        paths, job = a_run(tmp_path / str(code), id=f"local-{2**22 + 1}-1", scheduler="local")
        replace(job, state="CANCELLED").save(paths)
        paths.exit.write_text(f'{{"exit_code": {code}, "time": 1}}')
        assert job_status.status(paths, job).state.name == state


def test_a_scheduler_is_asked_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within half an hour of waiting; at once when something in the run's folder changes."""
    clock, asked = [0.0], []
    paths, job = a_run(tmp_path / "train-1")

    def run(argv: list[str], env: dict[str, str]) -> Result:
        asked.append(clock[0])
        state = "RUNNING" if paths.log.exists() else "PENDING"
        state = "COMPLETED" if paths.exit.exists() else state
        return Result(0, f"42|{state}|None|0|n1|0:01|1:00|1|\n", "")

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 1800 and not paths.log.exists():
            paths.log.parent.mkdir()
            paths.log.touch()
        if clock[0] > 2400 and not paths.exit.exists():
            paths.exit.write_text('{"exit_code": 0, "time": 1}')

    monkeypatch.setattr(shell, "run", run)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    (*_, (last,)) = job_status.until_end([(paths, job)])
    assert last.state.name == "COMPLETED"
    assert sum(when < 1800 for when in asked) < 75
    assert sum(1800 <= when < 2400 for when in asked) < 90
    assert clock[0] < 2401


STARTS = """\
{"began": 100.0, "nodes": "n[1-2]"}
{"ended": 160.0}
{"began": 300.0, "nodes": "n[3-4]"}
{"ended": 340.0}
"""


@pytest.mark.parametrize("elapsed", [None, 41.0])
def test_a_finished_job_is_told_by_what_it_recorded_of_all_its_starts(
    tmp_path: Path, elapsed: float | None
) -> None:
    """Slurm knows the last start alone, and nobody may have asked it."""
    paths, job = a_run(tmp_path / "train-1", state="COMPLETED", elapsed=elapsed)
    ends(paths, 0)
    paths.starts.write_text(STARTS)
    status = job_status.status(paths, job)
    assert (status.restart, status.nodes) == (1, "n[3-4]")
    assert status.elapsed == 60 + (elapsed or 40)
    seen, job = a_run(tmp_path / "train-2", state="FAILED", restart=3, nodes="n9", elapsed=7.0)
    ends(seen, 1)
    seen.starts.write_text('{"began": 100.0}\n{"ended": 107.5}\n')
    status = job_status.status(seen, job)
    assert (status.restart, status.nodes, status.elapsed) == (3, "n9", 7.0)


def test_metrics_are_read_for_a_start_without_an_end_alone(tmp_path: Path) -> None:
    """Those of a long training are many lines, and a list has many runs."""
    whole, job = a_run(tmp_path / "train-1", state="COMPLETED")
    whole.starts.write_text(STARTS)
    whole.metrics.mkdir()  # cannot be read
    assert job_status.status(whole, job).elapsed == 100
    killed, job = a_run(tmp_path / "train-2", state="NODE_FAIL")
    killed.starts.write_text('{"began": 100.0}\n')
    killed.metrics.write_text('{"step": 9, "time": "1970-01-01T00:02:30+00:00"}\n')
    assert job_status.status(killed, job).elapsed == 50
