"""What squeue and sacct answer."""

from __future__ import annotations

import os

import pytest

from runners.core import shell
from runners.core.job_record import JobState, Status
from runners.core.shell import Result
from runners.schedulers import slurm


def test_squeue_and_sacct_answers() -> None:
    text = "42|PENDING|Resources|2||0:00|1:00:00|1795292790|\n"
    text += "43|NEW_STATE|None|0|n[1-2]|1-00:00:02|UNLIMITED|1795292790|\n"
    text += "44_7|PENDING|Dependency|0||0:00|1:00|N/A|\n"
    assert slurm.parse_squeue(text) == {
        "42": Status(JobState.PENDING, "Resources", None, 2, start=1795292790.0),
        "43": Status(JobState.RUNNING, "", None, 0, "n[1-2]", 86402),
        "44_7": Status(JobState.PENDING, "Dependency"),
    }
    assert slurm.parse_sacct("42|CANCELLED by 1000|None assigned|0\n43_1|COMPLETED|n1|61\n") == {
        "42": Status(JobState.CANCELLED, "by 1000", elapsed=0),
        "43_1": Status(JobState.COMPLETED, nodes="n1", elapsed=61),
    }
    assert slurm.parse_sacct("") == {}


def test_uid_is_what_squeue_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], env: dict[str, str]) -> Result:
        assert env["SLURM_TIME_FORMAT"] == "%s"
        asked.append(argv)
        return Result(0, "", "")

    monkeypatch.setattr(shell, "run", run)
    assert slurm.SCHEDULER.states(["1", "2"]) == {}
    assert len(asked) == 1  # one call for any number of jobs
    assert f"--user={os.getuid()}" in asked[0]


def test_places_in_the_queue() -> None:
    """Higher priority is first, then the older; other partitions and held jobs do not count."""
    text = "".join(
        f"{line}|\n"
        for line in ("5|10|cpu", "7|30|gpu", "8_[3-9]|20|gpu,cpu", "9|10|cpu", "3|0|cpu")
    )
    assert slurm.parse_queue(text, "9") == 2
    assert slurm.parse_queue(text, "8_4") == 1
    assert slurm.parse_queue(text, "7") == 0
    assert slurm.parse_queue(text, "4") is None
