"""A launch says all that is wrong with it at once; an image that is not built is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from containers import expected_labels, image_catalogue
from runners.core.command_line import CommandLine, Given
from runners.core.errors import NotFound, Refused, RunnerError, UsageError
from runners.core.model import ImageInfo
from runners.core.plan import Plan
from runners.core.progress import Listener
from runners.launching import default_trainer, gather, submit
from runners.launching.submit import LaunchRequest
from runners.settings import suggest, trainers
from runners.settings.sweep import SweepRequest, SweepRun

from .. import sentences
from ..listener import Told
from ..programs import environment, program


@pytest.fixture(autouse=True)
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trainer, on a machine with Apptainer and no scheduler."""
    program(here / "bin/apptainer", "echo apptainer version 1.4.5")
    monkeypatch.setenv("PATH", f"{here}/bin:/usr/bin:/bin")
    (here / "train.py").touch()
    return here


def accepted(trainer: str = "", dry_run: bool = False, force: bool = False, **flags: Any) -> Plan:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    typed = CommandLine("launch", tuple(Given(*flag) for flag in named.items()), trainer=trainer)
    request = LaunchRequest(trainer, (), named, typed, dry_run=dry_run, force=force)
    return submit.accepted(request, Listener())


def refused(trainer: str = "train.py", **flags: Any) -> RunnerError:
    with pytest.raises((UsageError, Refused)) as caught:
        accepted(trainer, **flags)
    return caught.value


def test_what_cannot_work_here_and_no_mistake_is_refused() -> None:
    (Path("cut.sif")).write_bytes(b"#!/usr/bin/env run-singularity\n")
    error = refused(image="cut.sif", nodes=2)
    assert sentences.ids(error.faults) == ["image-unusable", "one-machine"]
    assert sentences.told(error)[0] == "image-unusable"
    assert error.exit_code == Refused.exit_code


def test_one_problem_is_told_as_it_is() -> None:
    error = refused(image="horovod_gpus.sif")
    assert isinstance(error, NotFound)
    assert sentences.told(error)[0] == "image-missing"
    assert not error.faults


def test_a_setting_that_two_steps_read_is_told_once() -> None:
    error = refused(module=["python"], module_use=["/nope"])
    assert sentences.told(error) == ("module-folder-missing",)
    assert not error.faults


@pytest.mark.parametrize("name", ["gpu", "horovod_gpu"])
def test_a_short_name_is_no_file(name: str) -> None:
    (remedy,) = refused(image=name).remedies
    assert remedy.text == "runner build gpu"
    assert remedy.options == (("image", "horovod_gpu.sif"),)


def test_an_unknown_image_names_what_is_known() -> None:
    assert sentences.told(refused(image="zzz"))[0] == "image-missing"


def test_the_command_that_builds_the_image_stands_before_the_launch() -> None:
    """The whole line mends both; alone neither does."""
    error = refused(image="horovod_cpu.sif", nodes=2)
    typed = CommandLine("launch", (Given("image", "horovod_cpu.sif"),), trainer="train.py")
    assert suggest.text(error.remedies[0], typed) == (
        "runner build cpu && runner launch --nodes 1 --ntasks 2 --image horovod_cpu.sif train.py"
    )


@pytest.mark.parametrize(
    ("name", "brings"),
    [("horovod_cpu.sif", "runner build cpu"), ("./my/horovod_gpu.sif", "--output ./my/")],
)
def test_an_image_that_is_not_built_is_planned_from_its_definition_and_lock(
    name: str, brings: str
) -> None:
    made = accepted("torch_mnist", dry_run=True, image=name)
    assert made.spec.image.fact("horovod.version") == "0.28.1"
    (warning,) = (warning for warning in made.warnings if warning.id == "image-not-built")
    assert brings in warning.remedies[0].text


def test_an_unknown_profile_and_an_unknown_image() -> None:
    error = refused(site="nosuch", image="zzz.sif")
    assert sentences.ids(error.faults) == ["site-unknown", "image-missing"]


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("cpu", {"cuda.version": "none", "horovod.operations": "mpi,gloo", "mpi.version": "4.1.4"}),
        (
            "gpu",
            {
                "horovod.frameworks": "pytorch,tensorflow",
                "cuda.version": "12.8",
                "cuda.driver.minimum": "525.60.13",
                "cuda.capabilities": "7.0,7.5,8.0,8.6,8.9,9.0,9.0+PTX",
            },
        ),
        ("gpu13", {"horovod.frameworks": "pytorch", "tensorflow.version": "none"}),
    ],
)
def test_expected_labels(name: str, some: dict[str, str]) -> None:
    labels = expected_labels.of(image_catalogue.IMAGES[name])
    assert some.items() <= labels.items()
    assert "torch_mnist" in labels["recipes"].split(",")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"torch.version": "none", "tensorflow.version": "2.21.0"}, "tf_mnist"),
        ({"torch.version": "2.1", "tensorflow.version": "2.21.0"}, "torch_mnist"),
        (
            {
                "torch.version": "2.1",
                "tensorflow.version": "2.2",
                "horovod.frameworks": "tensorflow",
            },
            "tf_mnist",
        ),
        ({}, "torch_mnist"),
    ],
)
def test_the_default_trainer_is_of_the_images_framework(labels: dict[str, str], name: str) -> None:

    assert default_trainer.of(ImageInfo(Path("a.sif"), labels)) == name


def test_without_a_trainer_and_without_a_framework(folder: Path) -> None:
    environment(folder / "env")
    error = refused("", runtime="none", image="env", scheduler="local")
    assert sentences.told(error)[0] == "framework-for-default-missing"
    assert error.remedies[0].trainer == ("hostname",)


def test_several_runs_need_a_trainer() -> None:
    sweep = SweepRequest([SweepRun(0), SweepRun(1)], None)
    request = LaunchRequest("", (), {"image": "horovod_cpu.sif"}, CommandLine(), sweep)
    with sentences.raises("array-without-trainer"):
        submit.accepted(request, Listener())


def test_gather_tells_which_trainer_it_took() -> None:
    told = Told()
    made = gather.plan("", (), {"image": "horovod_gpu.sif"}, True, told)
    assert made.spec.trainer.typed == "torch_mnist"
    assert told.texts[0].startswith("no trainer given: torch_mnist")


@pytest.mark.parametrize("ranks", [1, 4])
def test_few_ranks_train_with_the_trainers_own_defaults(ranks: int) -> None:
    assert default_trainer.arguments(ranks) == ()


@pytest.mark.parametrize("ranks", [5, 16, 64, 512, 4096])
def test_the_rate_and_batch_of_many_ranks_stay_small(ranks: int) -> None:
    """At 16 ranks the trainer's own defaults learn nothing, at 4096 the loss is no number."""
    words = default_trainer.arguments(ranks)
    given = dict(zip(words[::2], words[1::2]))
    assert float(given["--base-lr"]) * ranks == pytest.approx(0.2, rel=0.05)
    assert int(given["--batch-size"]) * ranks <= max(128, ranks)
    steps = -(-1437 // (int(given["--batch-size"]) * ranks)) * int(given["--epochs"])
    assert 100 <= steps < 2000
    for name in default_trainer.TRAINERS.values():
        trainers.check_arguments(name, words)


def test_the_plan_of_many_ranks_has_them() -> None:
    made = accepted(dry_run=True, image="horovod_cpu.sif", scheduler="slurm", nodes=16, force=True)
    assert made.spec.trainer.args[:1] == ("--epochs",)


def test_a_job_of_another_site_is_shown_and_nothing_built_for_it() -> None:
    """Typed without --dry-run the line would be refused, after a build of minutes."""
    error = refused(image="horovod_cpu.sif", site="neuron")
    (line,) = [suggest.text(remedy, CommandLine("launch")) for remedy in error.remedies]
    assert line == "runner launch --dry-run --comment pytorch"


def test_an_image_in_a_store_keeps_the_gpus_of_its_file() -> None:
    """Nobody reads the labels there: the job would get no GPUs."""
    error = refused("torch_mnist", image="horovod_gpu.sif", site="perlmutter", nodes=2)
    options = [dict(remedy.options) for remedy in error.remedies]
    assert [changed["gpus-per-node"] for changed in options] == ["4"]
    assert [changed["image"] for changed in options] == ["docker:REGISTRY/horovod_gpu:1"]


def test_an_image_to_be_built_where_nodes_see_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not built twice, nor copied before it is there."""
    monkeypatch.setenv("RUNNER_SCRATCH", "/tmp/scratch")
    monkeypatch.setenv("SCRATCH", "/shared/scratch")
    program(folder / "bin/sbatch", "exit 1")
    program(folder / "bin/sinfo", "echo 'all*|4|8|(null)|1:00:00|9|(null)'")
    error = refused("torch_mnist", image="horovod_cpu.sif", runs_dir="/shared/runs")
    typed = CommandLine("launch", (Given("image", "horovod_cpu.sif"),), trainer="torch_mnist")
    lines = [suggest.text(remedy, typed) for remedy in error.remedies]
    assert lines[0] == (
        "runner build cpu --output /shared/scratch/horovod_cpu.sif && "
        "runner launch --image /shared/scratch/horovod_cpu.sif torch_mnist"
    ), lines
    assert not [line for line in lines if "cp " in line]
