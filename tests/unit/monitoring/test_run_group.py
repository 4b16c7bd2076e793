"""Runs that were submitted together: what is new of them, how they ended, which are cancelled."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runners.core import job_record
from runners.core.errors import SystemFault
from runners.core.job_record import JobState, Status
from runners.jobs.find_run import Runs
from runners.monitoring import run_group
from runners.schedulers.slurm import SCHEDULER

from .. import sentences
from ..failures import leave, words
from ..runs import a_run, ends, squeue_says

GOOD, BAD = Status(JobState.COMPLETED), Status(JobState.FAILED, "", 1)


def together(folder: Path, *states: str) -> Runs:
    return [
        a_run(folder / f"train-1_{task}", id=f"42_{task}", state=state, array="train-1")
        for task, state in enumerate(states)
    ]


def squeue(*states: str) -> str:
    return "".join(f"42_{n}|{x}|None|0|n1|0:01|1:00|1|\n" for n, x in enumerate(states))


def test_news_are_which_runs_ended_whenever_the_states_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = together(tmp_path, "", "", "COMPLETED")
    looks = iter([("RUNNING", "PENDING"), ("RUNNING", "PENDING"), ("FAILED", "RUNNING")])
    squeue_says(monkeypatch, squeue("PENDING", "PENDING"))

    def sleep(_: float) -> None:
        squeue_says(monkeypatch, squeue(*next(looks, ("FAILED", "COMPLETED"))))
        clock[0] += 60

    clock = [0.0]
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    seen = [
        (
            [status.state.value for status in news.statuses],
            [(job.id, status.state.value) for job, status in news.ended],
        )
        for news in run_group.news(runs)
    ]
    assert seen == [
        (["pending", "pending", "completed"], [("42_2", "completed")]),
        (["running", "pending", "completed"], []),
        (["failed", "running", "completed"], [("42_0", "failed")]),
        (["failed", "completed", "completed"], [("42_1", "completed")]),
    ]


def test_the_first_bad_code_is_the_groups_and_who_was_cancelled_has_not_failed(
    tmp_path: Path,
) -> None:
    runs = together(tmp_path, *[""] * 4)
    leave(runs[2][0], 0, 1.0, words("ValueError: boom"), 7)
    statuses = [GOOD, Status(JobState.CANCELLED), BAD, BAD]
    group = run_group.ended(runs, statuses)
    assert group.exit_code == 86
    assert [run.job.id for run in group.explained] == ["42_2", "42_3"]
    assert "boom" in str(group.explained[0].explanation)
    assert run_group.ended(runs[2:], statuses[2:]).exit_code == 7
    assert run_group.ended(runs[:1], [GOOD]) == run_group.GroupEnd(0, 0, [])


def test_of_many_that_failed_the_first_are_explained(tmp_path: Path) -> None:
    group = run_group.ended(together(tmp_path, *[""] * 5), [GOOD, *[BAD] * 4])
    assert group.failed == 4
    assert [run.job.id for run in group.explained] == ["42_1", "42_2", "42_3"]


def test_the_odd_result_of_one_run_hides_no_other(tmp_path: Path) -> None:
    runs = together(tmp_path, "", "", "")
    runs[0][0].result.write_text("[1, 2]")
    runs[1][0].result.write_text('{"accuracy": 0.97}')
    odd, good, none = run_group.results(runs, [GOOD, GOOD, BAD])
    assert odd.odd.startswith(f"cannot read {runs[0][0].result}")
    assert (odd.result, good.result, good.odd) == (None, {"accuracy": 0.97}, "")
    assert (none.job.id, none.status, none.result, none.odd) == ("42_2", BAD, None, "")


def test_failed_runs_are_grouped_by_cause_the_most_frequent_first(tmp_path: Path) -> None:
    runs = together(tmp_path, "COMPLETED", "TIMEOUT", "FAILED", "FAILED", "STOPPED")
    for paths, _ in runs[2:4]:
        leave(paths, 0, 1.0, words("ModuleNotFoundError: No module named 'foo'"))
    explained = run_group.explained(runs)
    assert [job.id for job, _ in explained] == ["42_1", "42_2", "42_3"]
    groups = run_group.by_cause(explained)
    assert [[job.id for job, _ in group] for group in groups] == [["42_2", "42_3"], ["42_1"]]


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The numbers that the scheduler was asked to cancel."""
    numbers: list[str] = []
    monkeypatch.setattr(type(SCHEDULER), "cancel", lambda _, id: numbers.append(id))
    return numbers


def test_what_has_not_ended_is_cancelled_and_the_rest_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: list[str]
) -> None:
    squeue_says(monkeypatch, squeue("COMPLETED", "RUNNING", "PENDING"))
    runs = together(tmp_path, "COMPLETED", "", "")
    assert run_group.cancel(runs) == 2
    assert cancelled == ["42"], "one call for the array"
    states = [job_record.load(paths).state for paths, _ in runs]
    assert states == ["COMPLETED", "CANCELLED", "CANCELLED"]
    again = [(paths, job_record.load(paths)) for paths, _ in runs]
    assert [run_group.cancel(again), run_group.cancel(again[1:2])] == [0, 0]
    assert cancelled == ["42"]


def test_a_scheduler_that_tells_no_states_still_cancels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: list[str]
) -> None:
    def silent(_: object, ids: object) -> None:
        raise SystemFault("Slurm does not answer", "squeue: error")

    monkeypatch.setattr(type(SCHEDULER), "states", silent)
    assert run_group.cancel(together(tmp_path, "COMPLETED", "", "")) == 2
    assert cancelled == ["42"]


def test_one_run_of_an_array_is_cancelled_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: list[str]
) -> None:
    squeue_says(monkeypatch, squeue("RUNNING", "RUNNING"))
    first, second = together(tmp_path, "", "")
    assert run_group.cancel([second]) == 1
    assert cancelled == ["42_1"]
    assert job_record.load(first[0]).state == ""


def test_a_run_that_ends_by_itself_meanwhile_is_not_recorded_as_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue_says(monkeypatch, squeue("RUNNING", "RUNNING"))
    first, _ = together(tmp_path, "", "")
    paths, _ = first
    monkeypatch.setattr(type(SCHEDULER), "cancel", lambda _, id: ends(paths, 0))
    assert run_group.cancel([first]) == 0
    assert job_record.load(paths).state == ""


def test_a_requeued_job_that_waits_is_recorded_as_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: list[str]
) -> None:
    """The exit code of its preempted start is there until the next one."""
    squeue_says(monkeypatch, squeue("PENDING", "PENDING"))
    first, _ = together(tmp_path, "", "")
    ends(first[0], 143)
    assert run_group.cancel([first]) == 1
    assert job_record.load(first[0]).state == "CANCELLED"


def test_runs_of_an_array_that_others_may_write_are_not_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: list[str]
) -> None:
    """Their records could name any job."""
    squeue_says(monkeypatch, squeue("RUNNING", "RUNNING"))
    runs = together(tmp_path, "", "")
    runs[1][0].root.chmod(0o777)
    with sentences.raises("untrusted"):
        run_group.cancel(runs)
    assert cancelled == []


def test_programs_read_what_each_run_reached(tmp_path: Path) -> None:
    runs = together(tmp_path, "COMPLETED")
    runs[0][0].result.write_text('{"accuracy": 0.9}')
    (run,) = run_group.results(runs, [GOOD])
    assert run_group.facts(run) == {
        "id": "42_0",
        "folder": str(runs[0][0].root),
        "log": runs[0][1].log,
        "varied": {},
        "state": "COMPLETED",
        "reason": "",
        "restarts": 0,
        "exit_code": None,
        "result": {"accuracy": 0.9},
    }
