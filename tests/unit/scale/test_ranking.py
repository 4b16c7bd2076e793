"""What is compared of runs, which of them is the best, and by what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runners.core import plan_record
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.monitoring import run_group
from runners.scale import compare, measure, ranking

from .. import scripts, sentences
from ..runs import a_run
from .scaled import leave

RESULTS: list[dict[str, Any]] = [
    {"accuracy": 0.9, "loss": 0.3, "samples_per_s": 80.0, "epochs": 2, "startup_seconds": 3.0},
    {"accuracy": None, "loss": float("nan"), "trainer": "mine"},
    {},
    {"accuracy": 0.95, "loss": 0.4, "samples_per_s": 70.0, "resumed": True, "bleu": 0.2},
]


def test_accuracy_decides_then_come_loss_rates_and_what_else_is_a_fraction() -> None:
    assert ranking.metrics(RESULTS) == ["accuracy", "loss", "samples_per_s", "bleu"]
    assert ranking.metrics([{"tokens_per_s": 5000, "steps": 3}]) == ["tokens_per_s"]
    assert ranking.metrics([{}, {"steps": 3}]) == []


def test_the_best_is_first_and_what_has_no_number_last() -> None:
    assert ranking.best_first(RESULTS, "accuracy") == [3, 0, 1, 2]
    assert ranking.best_first(RESULTS, "loss") == [0, 3, 1, 2]
    assert ranking.best_first(RESULTS, "samples_per_s") == [0, 3, 1, 2]


@pytest.mark.parametrize("name", ["val_loss", "error_rate", "perplexity", "epoch_seconds"])
def test_less_of_some_is_better(name: str) -> None:
    assert ranking.less_is_better(name)


def test_what_is_asked_for_must_be_a_number_of_some_run() -> None:
    assert ranking.metric(RESULTS, None) == "accuracy"
    assert ranking.metric(RESULTS, "epochs") == "epochs"
    assert ranking.metric([{}], None) is None
    for name in ("acuracy", "trainer", "resumed"):
        with sentences.raises("sort-number-unknown"):
            ranking.metric(RESULTS, name)


def test_of_runs_without_a_number_none_is_the_best(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / f"t-{n}", varied={"--lr": str(n)}) for n in (1, 2)]
    stands = [Status(JobState.COMPLETED)] * 2
    assert ranking.ranked(run_group.results(runs, stands), None).best is None
    for (paths, _), loss in zip(runs, (0.5, 0.3)):
        paths.result.write_text(json.dumps({"loss": loss}))
    ranked = ranking.ranked(run_group.results(runs, stands), None)
    assert [result.job.varied["--lr"] for result in ranked.ordered] == ["2", "1"]
    assert ranked.best is ranked.ordered[0]
    assert (ranked.varied, ranked.metric) == (["--lr"], "loss")


def test_what_was_decided_is_read_from_the_plan(tmp_path: Path) -> None:
    """In a study too, where the trainer itself does not say what Horovod used."""
    paths = JobPaths(tmp_path / "t-1")
    leave(paths, 0, samples_per_s=100.0)
    plan_record.write(paths, scripts.jobs()["slurm-apptainer"])
    job = Job("7", "t", SchedulerName.SLURM, str(paths.log), 0.0)
    assert compare.of_run(paths, job, Status(JobState.COMPLETED)).settings.items() >= {
        ("scheduler", "slurm"),
        ("runtime", "apptainer"),
        ("launcher", "srun"),
        ("mpi", "pmix"),
        ("gradient-transport", "mpi"),
        ("cpus-per-task", 2),
    }
    assert measure.read(paths, 2, "", 1, drop=1).controller == "mpi"
    paths.plan.write_text('{"version": 1}')
    assert measure.read(paths, 2, "", 1, drop=1).controller == "", "its rate counts all the same"
