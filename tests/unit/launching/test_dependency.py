"""Dependencies name runs, of which some have ended, and jobs that are not ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import Resources, SchedulerName
from runners.jobs import find_run, job_status
from runners.launching import dependency
from runners.schedulers import local, slurm

from .. import sentences
from ..script.test_render import SPEC


def run_of(folder: Path, name: str, id: str, array: str = "", state: str = "") -> None:
    paths = JobPaths(folder / name)
    paths.root.mkdir()
    log = str(paths.log)
    Job(
        id, name, SchedulerName.SLURM, log, float(len(list(folder.iterdir()))), state, array=array
    ).save(paths)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    run_of(tmp_path, "first-1", "40", state="COMPLETED")
    run_of(tmp_path, "bad-1", "41", state="FAILED")
    for task in range(3):
        run_of(tmp_path, f"many-1_{task}", f"42_{task}", "many-1")
    run_of(tmp_path, "last-1", "45")
    return tmp_path


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("42", ["42_0", "42_1", "42_2"]),
        ("many-1", ["42_0", "42_1", "42_2"]),
        ("42_1", ["42_1"]),
        ("many-1_2", ["42_2"]),
        ("40", ["40"]),
        (None, ["45"]),
    ],
)
def test_what_a_word_means(runs: Path, word: str | None, ids: list[str]) -> None:
    assert [job.id for _, job in find_run.find_all(word, runs)] == ids
    if len(ids) > 1:
        with sentences.raises("run-ambiguous"):
            find_run.find(word, runs)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> None:
    def statuses(found: Sequence[tuple[JobPaths, Job]]) -> list[Status]:
        return [Status(JobState[job.state or "RUNNING"]) for _, job in found]

    monkeypatch.setattr(job_status, "statuses", statuses)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("afterok:last-1", "afterok:45"),
        ("afterok:many-1", "afterok:42"),
        ("afterany:many-1_2:45,singleton", "afterany:42_2:45,singleton"),
        ("after:last-1+5", "after:45+5"),
        ("afterok:first-1", None),
        ("afterok:first-1:last-1", "afterok:45"),
        ("afterok:last-1?afterok:first-1", None),
        ("afternotok:bad-1,afterany:4711", "afterany:4711"),
        ("afterok:4711_3", "afterok:4711_3"),
    ],
)
@pytest.mark.usefixtures("states")
def test_dependencies_take_runs_by_their_names(runs: Path, asked: str, told: str | None) -> None:
    assert dependency.resolve(asked, SchedulerName.SLURM, runs).text == told


@pytest.mark.usefixtures("states")
def test_dependencies_that_can_never_be_met(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(runs / "state"))  # which knows no other runs
    with sentences.raises("dependency-never-met"):
        dependency.resolve("afterok:bad-1", SchedulerName.SLURM, runs)
    with sentences.raises("dependency-never-met"):
        dependency.resolve("afternotok:first-1", SchedulerName.SLURM, runs)
    with sentences.raises("dependency-other-scheduler", "runner wait last-1"):
        dependency.resolve("afterok:last-1", SchedulerName.PBS, runs)
    assert dependency.resolve("afterok:first-1", SchedulerName.PBS, runs).text is None
    with sentences.raises("run-not-found"):
        dependency.resolve("afterok:nobody-1", SchedulerName.SLURM, runs)
    with sentences.raises("dependency-malformed", "--dependency afterok:last-1"):
        dependency.resolve("last-1", SchedulerName.SLURM, runs)


def test_nothing_waits_without_a_scheduler() -> None:
    spec = replace(SPEC, resources=Resources(dependency="afterok:first-1"))
    (refusal,) = local.SCHEDULER.refusals(spec, spec.resources)
    assert sentences.told(refusal)[0] == "dependency-without-queue"
    assert slurm.SCHEDULER.refusals(spec, spec.resources) == ()
