"""The Python API: real jobs of this machine, without a scheduler and without an image."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import runners
from runners import Job, JobState, RunnerError, UsageError
from runners.core.command_line import FLAG
from runners.core.job_record import JobPaths, load
from runners.settings import config

from .. import sentences
from ..programs import environment

HERE: dict[str, Any] = {"runtime": "none", "scheduler": "local", "image": "env"}
TRAINER = """
import json, os, sys, time
print("arguments", sys.argv[1:], os.environ.get("COLOUR"), flush=True)
if "wait" in sys.argv:
    time.sleep(600)
if "fail" in sys.argv:
    raise ValueError("no such layer")
if "silent" not in sys.argv:
    with open(os.path.join(os.environ["OUTPUT_DIR"], "result.json"), "w") as file:
        json.dump({"accuracy": 0.5}, file)
"""
WITHOUT_PACKAGES = """
import sys
sys.path.insert(0, sys.argv[1])
import runners.core.plan, runners.core.errors, runners.core.job_record
print([name for name in ("click", "spython", "rich", "tomli") if name in sys.modules])
print("runners.api" in sys.modules, runners.UsageError.__name__)
"""


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """A folder with a trainer and with a Python environment in place of an image."""
    (here / "train.py").write_text(TRAINER)
    environment(here / "env")
    return here


def launch(*args: object, **settings: Any) -> Job:
    return runners.launch("train.py", args=args, **HERE, **settings)


def test_a_job_from_launch_to_result(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = launch("--epochs", 5, env={"COLOUR": "blue"}, job_name="first", time=10)
    assert job.wait() is job.state is JobState.COMPLETED
    status = job.status()
    assert (status.state, status.exit_code, status.why) == (JobState.COMPLETED, 0, "")
    assert isinstance(status, runners.RunStatus)
    assert status.elapsed is not None
    assert status.elapsed < 60
    assert (status.folder, status.step) == (job.folder, None), "the trainer writes no steps"
    result = job.result()
    assert result.pop("use")["nodes"][0]["ranks"] == 1
    assert result == {"accuracy": 0.5}
    assert "arguments ['--epochs', '5'] blue\n" in job.logs()
    assert not job.explain().failed
    assert (job.name, job.folder) == ("first", folder / "runs/first-1")
    assert not job.cancel()
    assert job.state is JobState.COMPLETED, "what has ended stays as it is"
    same = runners.job(job.id)
    assert (same.folder, same.result()) == (job.folder, job.result())
    assert capfd.readouterr() == ("", "")


def test_the_command_line_reads_a_job_of_the_api_launched_in_a_thread() -> None:
    """Python gives signals to the main thread alone; a pipeline's others may launch as well."""
    jobs: list[Job] = []
    thread = threading.Thread(target=lambda: jobs.append(launch("--epochs", "5", nodes=1)))
    thread.start()
    thread.join(60)
    (job,) = jobs
    typed = load(JobPaths(job.folder)).typed
    assert (typed.trainer, typed.args, typed.text("image")) == (
        "train.py",
        ("--epochs", "5"),
        "env",
    )
    assert {setting.name for setting in typed.settings if setting.origin == FLAG} == {
        *HERE,
        "nodes",
    }
    assert job.wait() is JobState.COMPLETED


def test_a_job_without_a_result_says_how_to_write_one() -> None:
    with sentences.raises("result-missing"):
        launch("silent").result()


def test_a_job_has_the_warnings_of_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    job = launch()
    assert sentences.ids(job.warnings) == ["variable-kept"]
    assert job.warnings == runners.plan("train.py", **HERE).warnings
    assert runners.job(job.id).warnings == ()
    job.wait()


@pytest.mark.parametrize(
    ("settings", "id"),
    [
        ({"nodse": 2}, "setting-unknown"),
        ({"cpus-per-task": 2}, "setting-unknown"),
        ({"nodes": "two"}, "table-invalid"),
        ({"controller": "slow"}, "table-invalid"),
        ({"nodes": 0}, "number-below-one"),
        ({"env": {"COLOUR": None}}, "table-invalid"),
        ({"env": {"COLOUR": ["blue"]}}, "table-invalid"),
    ],
)
def test_settings_that_cannot_be_meant(folder: Path, settings: dict[str, Any], id: str) -> None:
    with sentences.raises(id):
        launch(**settings)
    assert not (folder / "runs").exists()


def test_a_packaged_trainers_arguments_are_checked() -> None:
    with sentences.raises("trainer-option-unknown"):
        runners.launch("torch_mnist", args=["--epcohs", 5], **HERE)


@pytest.mark.parametrize("args", ["--lr 1", ["--help"], ["--epochs", 5, "-h"]])
def test_arguments_that_train_nothing(
    args: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError):
        runners.launch("torch_mnist", args=args, **HERE)
    with pytest.raises(UsageError):
        runners.plan("torch_mnist", args=args, **HERE)
    assert not (folder / "runs").exists()
    assert capfd.readouterr() == ("", "")


def test_without_a_trainer_it_is_a_packaged_test(capfd: pytest.CaptureFixture[str]) -> None:
    made = runners.plan(image="horovod_cpu.sif", scheduler="slurm", nodes=2)
    assert made.spec.trainer.name == "torch_mnist"
    assert capfd.readouterr() == ("", "")
    with sentences.raises("args-without-trainer"):
        runners.plan(args=["--epochs", 1], image="horovod_cpu.sif")


def test_force_submits_what_would_be_refused_and_is_recorded() -> None:
    with pytest.raises(runners.Refused):
        launch(nodes=3)
    (refused,) = runners.plan("train.py", **HERE, nodes=3).refusals
    job = runners.launch("train.py", force=True, **HERE, nodes=3)
    assert refused.id in [warning.id for warning in job.warnings]
    assert load(JobPaths(job.folder)).typed.switches == (("force", True),)
    assert job.wait() is JobState.FAILED


def test_the_last_job_of_a_folder_of_runs(folder: Path) -> None:
    launch(runs_dir="first").wait()
    last = launch(runs_dir="second")
    assert runners.job(runs_dir="second").folder == last.folder
    assert last.folder.parent == folder / "second"
    with pytest.raises(runners.NotFound):
        runners.job()
    last.wait()


def test_a_plan_that_cannot_work_has_refusals_and_a_launch_raises_them(folder: Path) -> None:
    plan = runners.plan("train.py", **HERE, nodes=3)
    (refusal,) = plan.refusals
    with pytest.raises(runners.Refused) as caught:
        launch(nodes=3)
    assert (caught.value.diagnosis.id, caught.value.remedies) == (refusal.id, refusal.remedies)
    assert not (folder / "runs").exists()
    assert runners.plan("train.py", **HERE).refusals == ()


def test_errors_have_one_base() -> None:
    for name in ("UsageError", "Refused", "NotFound", "SystemFault", "NotVerified", "JobFailed"):
        assert issubclass(getattr(runners, name), RunnerError)
    with pytest.raises(AttributeError, match="no_such"):
        _ = runners.no_such


def test_the_floor_needs_no_package_and_loads_no_api() -> None:
    checkout = str(Path(runners.__file__).parents[1])
    isolated = [sys.executable, "-I", "-S", "-c", WITHOUT_PACKAGES, checkout]
    done = subprocess.run(isolated, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\nFalse UsageError\n", done.stderr


def test_keywords_and_options_have_the_same_types(folder: Path) -> None:
    """A number for a setting that is a text, such as gpus and time, is what its option would be."""
    plan = runners.plan(
        "train.py", **HERE, time=30, bind=folder, stall_after=60, env={"THREADS": 4}
    )
    assert plan.spec.resources.time == "30"
    assert plan.spec.binds[0].source == str(folder)
    given = {
        setting.name: setting.value for setting in plan.spec.settings if setting.origin == FLAG
    }
    typed = {"time": "30", "bind": str(folder), "stall-after": 60, "env": "THREADS=4"}
    assert given == {**HERE, **typed}
    assert set(given) <= set(config.KINDS)
