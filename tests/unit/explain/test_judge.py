"""What `explain` once said with too much certainty, or of the wrong rank, file or option."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.log_text import OF_A_TYPE
from runners.core.command_line import Given
from runners.core.diagnosis import Certainty, Severity
from runners.core.job_record import Job, JobPaths, JobState, Status
from runners.core.model import SchedulerName
from runners.explain.explanation import Candidate, Explanation, Precedence
from runners.explain.judge import explain
from runners.injob import problems
from runners.jobs import job_status

from ..failures import leave
from .cases import FOLDER
from .runs import FAILED, made, planned


def test_a_run_whose_folder_is_gone_has_not_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, job = made(tmp_path, "")
    job.save(paths)
    answer = {job.id: Status(JobState.COMPLETED)}
    monkeypatch.setattr(job_status, "_ask", lambda name, runs: answer if runs else {})
    assert job_status.status(paths, replace(job, host="")).state == JobState.COMPLETED
    shutil.rmtree(paths.root)
    status = job_status.status(paths, replace(job, host=""))
    assert status.state == JobState.UNKNOWN
    why = explain(paths, job, status)
    assert why.id == "run-folder-deleted", why
    assert str(paths.root) in why.what


@pytest.mark.parametrize(
    ("runtime", "command"),
    [
        ("none", "/envs/torch/bin/python /w/t.py --help"),
        ("apptainer", "apptainer exec /envs/torch python3 /w/t.py --help"),
        ("podman-hpc", "podman-hpc run --rm /envs/torch python3 /w/t.py --help"),
    ],
)
def test_a_command_in_the_image_is_that_of_the_runtime(
    tmp_path: Path, runtime: str, command: str
) -> None:
    paths, job = made(tmp_path, "")
    planned(paths, runtime, request={"settings": (Given("image", "/envs/torch"),)})
    leave(paths, 0, 1.0, problems.of_exit(2, "error: unrecognized arguments: --lr 1"), 2)
    why = explain(paths, job, FAILED)
    assert (why.id, str(why.fix)) == ("bad-argument", command), why
    # One that was named by the images' folder is where the job had it.
    planned(paths, runtime, request={"settings": (Given("image", "torch"),)})
    why = explain(paths, replace(job, image="/envs/torch"), FAILED)
    assert str(why.fix) == command


def of_older_runner(folder: Path, trainer: str, *args: str) -> tuple[JobPaths, Job]:
    """Return a run whose plan has no command of the trainer: its launch has the words."""
    paths, job = made(folder, "")
    planned(paths)
    plan = json.loads(paths.plan.read_text())
    del plan["command"]
    paths.plan.write_text(json.dumps(plan))
    return paths, replace(job, typed=replace(job.typed, trainer=trainer, args=args))


@pytest.mark.parametrize(
    ("trainer", "args", "error", "code", "fix"),
    [
        ("torch_mnist", ["--base-lr", "0.05"], "training diverged: nan", 1, "-- --base-lr 0.005"),
        ("t.py", ["--batch-size=64"], "MemoryError", 1, "-- --batch-size 32"),
        (
            "torch_mnist",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 -m recipes.torch_mnist --help",
        ),
        (
            "minimal_ddp",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 -m recipes.minimal.minimal_ddp --help",
        ),
        (
            "t.py",
            ["--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 t.py --help",
        ),
        (
            "python",
            ["t.py", "--lr", "1"],
            "error: unrecognized arguments: --lr 1",
            2,
            "apptainer exec a.sif python3 t.py --help",
        ),
        ("", [], "error: unrecognized arguments: --lr 1", 2, "runner logs --rank 0 42"),
    ],
)
def test_without_the_ranks_command_the_launch_tells_the_trainer(
    tmp_path: Path, trainer: str, args: list[str], error: str, code: int, fix: str
) -> None:
    paths, job = of_older_runner(tmp_path, trainer, *args)
    leave(paths, 0, 1.0, problems.of_exit(code, error), code)
    assert str(explain(paths, job, FAILED).fix) == fix
    paths.plan.unlink()
    assert str(explain(paths, job, FAILED).fix) == fix, "the same where no plan was written"


@pytest.mark.parametrize(
    ("trainer", "offered"), [("torch_mnist", True), ("t.py", False), ("-m", False)]
)
def test_without_the_ranks_command_requeue_is_offered_to_a_recipe(
    tmp_path: Path, trainer: str, offered: bool
) -> None:
    paths, job = of_older_runner(tmp_path, trainer)
    said = explain(paths, job, Status(JobState.TIMEOUT))
    assert ("--requeue" in str(said.fix)) == offered


def test_whose_end_is_on_record_was_not_ended_by_slurm(tmp_path: Path) -> None:
    """Slurm ends the others, which its line says; who was first is known."""
    ended = "error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T05:46:23 ***\n"
    paths, job = made(tmp_path, f"0@n0 | checks failed\n{ended}")
    assert explain(paths, job, FAILED).id == "failed-elsewhere"
    leave(paths, 0, 1.0, problems.of_exit(1), 1)
    why = explain(paths, job, FAILED)
    assert why.what == "rank 0@n0 was the first to fail: exit code 1"
    assert "checks failed" in why.evidence


# What programs write that then train: PyTorch 2.13, TensorFlow 2.21, NCCL 2.27, Horovod 0.28.1,
# Open MPI 4.1, Apptainer 1.4, Slurm 24.11
HEALTHY = (FOLDER / "healthy.log").read_text(encoding="utf-8")


def test_what_a_healthy_start_prints_is_no_cause(tmp_path: Path) -> None:
    paths, job = made(tmp_path, HEALTHY)
    leave(paths, 0, 1.0, problems.of_exit(7), 7)
    why = explain(paths, job, FAILED)
    assert why.certainty.value == "unsure", why
    for line in HEALTHY.splitlines(keepends=True):
        paths.log.write_text(line)
        why = explain(paths, job, FAILED)
        assert why.certainty.value == "unsure", line


@pytest.mark.parametrize("scheduler", sorted({*SchedulerName} - {SchedulerName.SLURM}))
def test_an_option_of_sbatch_is_only_for_what_sbatch_submits(
    tmp_path: Path, scheduler: SchedulerName
) -> None:
    line = "fi_mr_reg: Unable to register MR of 8192 bytes: Cannot allocate memory"
    for number, error in ((1, problems.of_exit(1, line)), (2, problems.of_process(152, []))):
        paths, job = made(tmp_path / str(number), "")
        leave(paths, 0, 1.0, error)
        why = explain(paths, replace(job, scheduler=scheduler), FAILED)
        said = " ".join((*why.steps, str(why.fix)))
        assert "ulimit" in said, why
        assert "--propagate" not in said


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("train.error.mean: 0.5", False),
        ("val_error: 0.12", False),
        ("val.error: -1e-05", False),
        ("a.queue.size: 3", False),
        ("lib.version: 2", False),
        ("struct.error: unpack requires a buffer of 4 bytes", True),
        ("socket.timeout: timed out", True),
        ("KeyError: 3", True),
    ],
)
def test_a_metric_is_no_exception(line: str, error: bool) -> None:
    assert problems.of_process(1, [line]).fields["error"] == (line if error else "")
    assert bool(re.match(OF_A_TYPE, line)) is error


@pytest.mark.parametrize(
    ("imports", "given", "fix"),
    [
        ("import tensorflow as tf", "A=1", "--env TF_USE_LEGACY_KERAS=1"),
        ("import keras", "A=1", "${EDITOR:-vi} +2 "),
        ("from keras import layers", "TF_USE_LEGACY_KERAS=1", "${EDITOR:-vi} +2 "),
        ("import tf_keras as keras", "TF_USE_LEGACY_KERAS=1", "A script of `tf.keras` takes"),
    ],
)
def test_keras_2_is_offered_as_the_script_imports_it(
    tmp_path: Path, imports: str, given: str, fix: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\n{imports}\n")
    error = "AttributeError: 'Sequential' object has no attribute 'fit_generator'"
    lines = ("Traceback (most recent call last):", f'  File "{script}", line 2, in <module>', error)
    log = "".join(f"0@n0 | {line}\n" for line in lines)
    paths, job = made(tmp_path, log, (0, 1.0, error))
    typed = replace(job.typed, settings=(*job.typed.settings, Given("env", given)))
    said = explain(paths, replace(job, typed=typed), FAILED)
    assert said.id == "keras-2"
    assert str(said.fix).startswith(fix), said.fix


def test_an_image_that_was_overwritten_is_named(tmp_path: Path) -> None:
    """It is newer than the job, and the first rank could not read from it."""
    (tmp_path / "a.sif").touch()
    paths, job = made(tmp_path, "", (0, 1.0, "OSError: [Errno 5] Input/output error: '/opt/x'"))
    why = explain(paths, replace(job, image=str(tmp_path / "a.sif")), FAILED)
    assert (why.id, str(why.fix)) == ("image-overwritten", "the same command once more")
    assert explain(paths, job, FAILED).id == "input-output-error"


def candidate(certainty: Certainty, precedence: int, **message: Any) -> Candidate:
    explanation = Explanation("x", Severity.FAILURE, "x", certainty=certainty)
    return Candidate(explanation, precedence, **message)


def test_one_key_decides_between_all_candidates() -> None:
    certain, likely, unsure = Certainty
    message = Precedence.MESSAGE
    best_first = [
        candidate(likely, Precedence.SLURM),
        candidate(certain, message, expressions=2, at=9),
        candidate(certain, message, expressions=1, at=3),
        candidate(certain, message, expressions=1, at=4),
        candidate(certain, message, expressions=3, at=0, in_log=True),
        candidate(likely, message, expressions=1),
        candidate(likely, message, declared=likely, expressions=2),
        candidate(certain, Precedence.NOT_STARTED),
        candidate(unsure, Precedence.CONTAINER),
        candidate(unsure, Precedence.MESSAGE_BEFORE_CRASH),
        candidate(likely, Precedence.CRASH),
        candidate(unsure, Precedence.GENERAL_MESSAGE),
        candidate(certain, Precedence.FALLBACK),
        candidate(certain, Precedence.ENDED),
    ]
    keys = [candidate.key for candidate in best_first]
    assert keys == sorted({*keys})
