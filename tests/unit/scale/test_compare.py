"""What runs have in common and in what they differ, read from their folders."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runners.core import digest, plan_record
from runners.core.command_line import CommandLine
from runners.core.job_record import JobState, Status
from runners.scale import compare, ranking

from ..runs import a_run


def test_runs_side_by_side(tmp_path: Path) -> None:
    typed = CommandLine(trainer="torch_mnist", args=("--lr", "0.1"))
    paths, job = a_run(
        tmp_path / "train-1", image="a.sif", digest="sha256:0123456789abcdef", typed=typed
    )
    launching = {"scheduler": "local", "runtime": "apptainer", "launcher": "local"}
    decided = {"launching": launching, "gpus": {"data_plane": "gloo"}}
    plan = {"version": plan_record.VERSION, **decided, "choices": [{"id": "x", "value": "y"}]}
    paths.plan.write_text(json.dumps(plan))
    cut = compare.of_run(paths, job, Status(JobState.FAILED, elapsed=9.0))
    assert cut.settings == {
        "image": "a.sif", "image digest": "0123456789ab", **launching, "gradient-transport": "gloo",
        "arguments as typed": "--lr 0.1",
    }  # fmt: skip
    assert cut.measured == {"state": "failed", "elapsed_seconds": 9.0}
    paths.result.write_text(
        '{"world_size": 2, "arguments": {"base_lr": 0.1}, "samples_per_s": 80.0, "loss": 0.2}'
    )
    whole = compare.of_run(paths, job, Status(JobState.COMPLETED))
    assert whole.settings["--base-lr"] == 0.1
    assert whole.measured == {"state": "completed", "samples_per_s": 80.0, "loss": 0.2}
    names = ranking.names([cut.settings, whole.settings])
    assert names == [*cut.settings, "world_size", "--base-lr"]
    assert compare.differing([cut, whole]) == ["arguments as typed"], "no result tells the others"


@pytest.mark.parametrize(
    ("command", "trainer", "args", "shown"),
    [
        (("-m", "recipes.torch_mnist", "--lr", "1"), "torch_mnist", ("--lr", "1"), "--lr 1"),
        (("/w/t.py", "--lr", "1"), "t.py", ("--lr", "1"), "--lr 1"),
        (("python3", "-m", "p", "x"), "python3", ("-m", "p", "x"), "-m p x"),
    ],
)
def test_a_run_without_a_result_has_the_arguments_of_its_command(
    tmp_path: Path, command: tuple[str, ...], trainer: str, args: tuple[str, ...], shown: str
) -> None:
    done = Status(JobState.FAILED)
    paths, job = a_run(tmp_path / "t-1", typed=CommandLine(trainer=trainer, args=args))
    assert compare.of_run(paths, job, done).settings["arguments as typed"] == shown, "no plan"
    paths.plan.write_text(json.dumps({"version": plan_record.VERSION, "command": command}))
    plain = replace(job, typed=CommandLine(trainer="other.py", args=("--other",)))
    assert compare.of_run(paths, plain, done).settings["arguments as typed"] == shown


def test_a_run_whose_image_cannot_be_read_is_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "a.sif"
    image.write_bytes(b"content")
    paths, job = a_run(tmp_path / "train-1", image=str(image), submitted=time.time() + 9)
    done = Status(JobState.COMPLETED)
    assert compare.of_run(paths, job, done).settings["image digest"] == "ed7002b439e9"
    monkeypatch.setattr(digest, "sha256", lambda path, _: path.joinpath("not a folder").read_text())
    assert "image digest" not in compare.of_run(paths, job, done).settings


@pytest.mark.parametrize(
    ("name", "value", "first", "shown"),
    [
        ("rate", 112.0, 100.0, "+12 %"),
        ("rate", 50.0, 100.0, "-50 %"),
        ("rate", 100.1, 100.0, ""),
        ("loss", 482.0, 0.0585, "8,239 times"),
        ("loss", 0.0585, 482.0, "-100 %"),
        ("loss", -1.0, 0.001, ""),
        ("accuracy", 0.8, 0.97, "-17.0 points"),
        ("accuracy", 0.9701, 0.97, ""),
        ("accuracy", 80.0, 97.0, "-18 %"),
        ("gpu_use_percent", 45.0, 90.0, "-45.0 points"),
        ("loss", 1.0, 0.0, ""),
        ("steps", 8, 4, ""),
        ("loss", "a", 1.0, ""),
    ],
)
def test_changes(name: str, value: object, first: object, shown: str) -> None:
    assert compare.change(name, value, first) == shown


@pytest.mark.parametrize(
    ("controller", "result", "told"),
    [
        ("mpi", {}, True),
        ("mpi", {"controller": "none"}, False),  # a trainer of DDP's
        ("none", {}, False),
    ],
)
def test_the_pmi_is_told_of_ranks_of_mpi_alone(
    tmp_path: Path, controller: str, result: dict[str, str], told: bool
) -> None:
    launching = {"scheduler": "slurm", "runtime": "apptainer", "launcher": "srun"}
    decided = {"launching": launching, "wireup": {"controller": controller, "mpi": "pmix"}}
    paths, job = a_run(tmp_path / "train-1")
    paths.plan.write_text(json.dumps({"version": plan_record.VERSION, **decided}))
    paths.result.write_text(json.dumps({"loss": 0.1, **result}))
    compared = compare.of_run(paths, job, Status(JobState.COMPLETED))
    assert ("mpi" in compared.settings) is told


def test_runs_are_ordered_by_what_they_reached_and_keep_the_order_in_which_they_were_named(
    tmp_path: Path,
) -> None:
    runs = [a_run(tmp_path / name) for name in ("t-1", "t-2", "t-3")]
    for (paths, _), loss in zip(runs, (9.0, 0.5, 0.55)):
        paths.result.write_text(json.dumps({"loss": loss, "samples_per_s": 10 * loss}))
    compared = [compare.of_run(*run, Status(JobState.COMPLETED)) for run in runs]
    by_loss = compare.compare(compared, None)
    assert by_loss.metric == "loss"
    assert [row.run for row in by_loss.runs] == ["t-1", "t-2", "t-3"]
    assert [row.run for row in by_loss.ordered] == ["t-2", "t-3", "t-1"]
    by_rate = compare.compare(compared, "samples_per_s")
    assert [row.run for row in by_rate.ordered] == ["t-1", "t-3", "t-2"]


def test_programs_read_the_runs_as_they_were_named_and_the_best() -> None:
    runs = [
        compare.Compared(name, {"lr": lr}, {"state": "completed", "loss": loss}, {"cpus": 2.0})
        for name, lr, loss in (("t-1", 0.9, 9.0), ("t-2", 0.1, 0.5))
    ]
    facts = compare.compare(runs, None).facts
    assert (facts["differ"], facts["metric"], facts["best"]) == (["lr"], "loss", "t-2")
    assert [run["run"] for run in facts["runs"]] == ["t-1", "t-2"]
    assert list(facts["runs"][0]) == ["run", "settings", "measured", "used"]
