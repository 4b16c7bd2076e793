"""Reasons and times in words."""

from __future__ import annotations

import time

import pytest

from runners.core.job_record import Job, JobState, Status
from runners.core.model import SchedulerName
from runners.core.text import span
from runners.monitoring import wording
from runners.monitoring.wording import reason_in_words


@pytest.mark.parametrize(("reason", "words"), [
        ("Priority", "other jobs are before it"),
        ("NonZeroExitCode", ""),
        ("ReqNodeNotAvail,_UnavailableNodes:n[1-2]",
         "a node that it needs is not available (UnavailableNodes:n[1-2])"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority",
         "the nodes that it needs are down, drained or kept for other jobs"),
        ("QOSMaxJobsPerUserLimit", "its QOS allows no more for now: QOSMaxJobsPerUserLimit"),
        ("AssocGrpCPUMinutesLimit",
         "your account allows no more for now: AssocGrpCPUMinutesLimit"),
        ("RaisedSignal:9(Killed)", "ended by signal 9"),
        ("Not Running: no nodes", "Not Running: no nodes"),
        ("SomethingNew", "SomethingNew"),
        ("", ""),
    ])  # fmt: skip
def test_reasons_in_words(reason: str, words: str) -> None:
    assert reason_in_words(reason) == words


def test_times() -> None:
    assert [span(seconds) for seconds in (None, 7.4, 3599.6, 90061)] == [
        "", "0:07", "1:00:00", "1-01:01:01",
    ]  # fmt: skip
    now = time.mktime((2026, 11, 21, 20, 0, 0, 0, 0, -1))
    assert wording.moment(now + 600, now) == "20:10"
    assert wording.moment(now + 86400, now) == "2026-11-22 20:00"


@pytest.mark.parametrize(
    ("state", "words"), [(JobState.RUNNING, "running on n1, 1:00:00 to its limit"),
                         (JobState.PENDING, "pending on n1")],
)  # fmt: skip
def test_the_limit_of_a_job_that_runs_since_this_second(state: JobState, words: str) -> None:
    """The scheduler lists the whole limit for one that waits, too."""
    now = Status(state, "", None, 0, "n1", elapsed=0.0, left=3600.0)
    assert wording.beside(Job("7", "train", SchedulerName.SLURM, "", 1.0), now) == f"job 7 {words}"
