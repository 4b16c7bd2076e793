"""What is compared of runs, which of them is the best, and by what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.core import plan_record
from runners.core.errors import UsageError
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.scale import compare, measure

from .. import scripts
from ..tables import each
from .scaled import leave

RESULTS: list[dict[str, Any]] = [
    {"accuracy": 0.9, "loss": 0.3, "samples_per_s": 80.0, "epochs": 2, "startup_seconds": 3.0},
    {"accuracy": None, "loss": float("nan"), "trainer": "mine"},
    {},
    {"accuracy": 0.95, "loss": 0.4, "samples_per_s": 70.0, "resumed": True, "bleu": 0.2},
]


def test_accuracy_decides_then_come_loss_rates_and_what_else_is_a_fraction() -> None:
    assert compare.metrics(RESULTS) == ["accuracy", "loss", "samples_per_s", "bleu"]
    assert compare.metrics([{"tokens_per_s": 5000, "steps": 3}]) == ["tokens_per_s"]
    assert compare.metrics([{}, {"steps": 3}]) == []


def test_the_best_is_first_and_what_has_no_number_last() -> None:
    assert compare.best_first(RESULTS, "accuracy") == [3, 0, 1, 2]
    assert compare.best_first(RESULTS, "loss") == [0, 3, 1, 2]
    assert compare.best_first(RESULTS, "samples_per_s") == [0, 3, 1, 2]


@each("val_loss", "error_rate", "perplexity", "epoch_seconds")
def test_less_of_some_is_better(name: str) -> None:
    assert compare.less_is_better(name)


def test_what_is_asked_for_must_be_a_number_of_some_run() -> None:
    assert compare.metric(RESULTS, None) == "accuracy"
    assert compare.metric(RESULTS, "epochs") == "epochs"
    assert compare.metric([{}], None) is None
    for name in ("acuracy", "trainer", "resumed"):
        with pytest.raises(UsageError, match=f"--sort {name}"):
            compare.metric(RESULTS, name)


def test_what_was_decided_is_read_from_the_plan(tmp_path: Path) -> None:
    """In a study too, where the trainer itself does not say what Horovod used."""
    paths = JobPaths(tmp_path / "t-1")
    leave(paths, 0, samples_per_s=100.0)
    plan_record.write(paths, scripts.jobs()["slurm-apptainer"])
    job = Job("7", "t", "slurm", str(paths.log), 0.0)
    assert compare.of_run(paths, job, Status(JobState.COMPLETED)).settings.items() >= {
        ("scheduler", "slurm"),
        ("runtime", "apptainer"),
        ("launcher", "srun"),
        ("mpi", "pmix"),
        ("data-plane", "mpi"),
        ("cpus-per-task", 2),
    }
    assert measure.read(paths, 2, "", 1, drop=1).controller == "mpi"
    paths.plan.write_text('{"version": 1}')
    assert measure.read(paths, 2, "", 1, drop=1).controller == "", "its rate counts all the same"
