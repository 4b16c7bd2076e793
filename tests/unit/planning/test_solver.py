"""`solver.solve` as a table: what is asked and offered, what is chosen or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.enums import Controller
from runners.core.model import (
    BindMount,
    Dataset,
    GpuVendor,
    ImageInfo,
    JobSpec,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import ChoiceId
from runners.core.site import Profile, Site
from runners.core.trainer import Framework, Trainer
from runners.planning import execution

from .. import scripts, sentences
from ..plans import planned

RECIPE = Trainer("torch_mnist", "recipes.torch_mnist", None, (), Framework.PYTORCH)
SPEC = JobSpec("job", ImageInfo(Path("/i/a.sif")), RECIPE, Resources(), Path("/runs"))
SLURM = Site((SchedulerName.SLURM,), ("none", "pmi2", "pmix", "pmix_v5"), RuntimeName.APPTAINER)
LAPTOP = Site((), (), RuntimeName.APPTAINER)
OURS = ImageInfo(Path("/i/a.sif"), {**scripts.OURS, "horovod.frameworks": "pytorch,tensorflow"})
FOREIGN = ImageInfo(Path("/i/a.sif"))


def labels(**changes: str) -> ImageInfo:
    return replace(
        OURS, labels={**OURS.labels, **{k.replace("_", "."): v for k, v in changes.items()}}
    )


NO_PMIX = replace(SLURM, mpi_types=("none", "pmi2"))


@pytest.mark.parametrize(
    ("spec", "site", "image", "expected"),
    [
        ({}, SLURM, OURS, ("slurm", "srun", "mpi", "pmix")),
        ({"controller": Controller.GLOO}, SLURM, OURS, ("slurm", "srun", "gloo", "none")),
        ({}, NO_PMIX, OURS, ("slurm", "srun", "gloo", "none")),
        ({}, SLURM, labels(pmix_version="none"), ("slurm", "srun", "gloo", "none")),
        ({}, SLURM, labels(horovod_controllers="gloo"), ("slurm", "srun", "gloo", "none")),
        ({}, SLURM, labels(horovod_controllers="mpi"), ("slurm", "srun", "mpi", "pmix")),
        ({}, SLURM, FOREIGN, ("slurm", "srun", "gloo", "none")),
        ({"controller": Controller.MPI}, SLURM, FOREIGN, ("slurm", "srun", "mpi", "pmix")),
        (
            {"controller": Controller.MPI, "mpi": "pmi2"},
            SLURM,
            FOREIGN,
            ("slurm", "srun", "mpi", "pmi2"),
        ),
        (
            {"controller": Controller.MPI},
            SLURM,
            labels(mpi_flavour="mpich"),
            ("slurm", "srun", "mpi", "pmi2"),
        ),
        ({}, LAPTOP, OURS, ("local", "local", "gloo", None)),
        ({"scheduler": SchedulerName.LOCAL}, SLURM, OURS, ("local", "local", "gloo", None)),
        ({"controller": Controller.MPI}, LAPTOP, OURS, ("local", "local", "mpi", None)),
    ],
)
def test_choices(
    spec: dict[str, Any], site: Site, image: ImageInfo, expected: tuple[str, ...]
) -> None:
    made = planned(SPEC, site, **spec, image=image)
    assert (
        made.launching.scheduler,
        made.launching.launcher,
        made.wireup.controller,
        made.wireup.mpi,
    ) == expected
    assert all(choice.reason for choice in made.choices)


@pytest.mark.parametrize(
    ("spec", "site", "image", "told"),
    [
        (
            {"scheduler": SchedulerName.SLURM},
            LAPTOP,
            OURS,
            ["scheduler-missing", "--scheduler local"],
        ),
        ({"resources": Resources(nodes=2)}, LAPTOP, OURS, ["one-machine", "--nodes 1 --ntasks 2"]),
        ({}, replace(LAPTOP, runtime=None), OURS, ["no-runtime", "module load apptainer"]),
        (
            {"controller": Controller.MPI},
            SLURM,
            labels(horovod_controllers="gloo"),
            ["controller-missing", "--controller gloo"],
        ),
        ({"controller": Controller.MPI}, NO_PMIX, OURS, ["mpi-type-missing", "--controller gloo"]),
        ({"mpi": "pmix_v9"}, SLURM, OURS, ["mpi-type-missing", "--mpi pmix"]),
        (
            {"controller": Controller.MPI, "mpi": "pmi2"},
            SLURM,
            OURS,
            ["mpi-type-mismatch", "--mpi pmix", "--controller gloo"],
        ),
        ({}, SLURM, labels(horovod_frameworks="tensorflow"), ["framework-unsupported"]),
        ({"output": "%j.out"}, LAPTOP, OURS, ["output-pattern", "leave out --output"]),
        (
            {"output": "%j.out"},
            replace(LAPTOP, schedulers=(SchedulerName.PBS,)),
            OURS,
            ["output-pattern", "leave out --output"],
        ),
    ],
)
def test_refusals(spec: dict[str, Any], site: Site, image: ImageInfo, told: list[str]) -> None:
    refusals = map(sentences.told, planned(SPEC, site, **spec, image=image).refusals)
    assert told in [list(refusal[: len(told)]) for refusal in refusals]


def test_slurm_fills_in_patterns() -> None:
    spec = replace(SPEC, output="%x.out", error="%x.err")
    assert planned(spec, SLURM).refusals == ()


def test_a_login_node_without_the_runtime_assumes_it_on_the_nodes() -> None:
    made = planned(SPEC, replace(SLURM, runtime=None), image=OURS)
    assert made.launching.runtime == "apptainer"
    assert any("assumed" in choice.reason for choice in made.choices)


@pytest.mark.parametrize(
    ("resources", "nv", "expected"),
    [
        (Resources(), None, False),
        (Resources(gpus="2"), None, True),
        (Resources(gres="gpu:1"), None, True),
        (Resources(gres="craynetwork:1"), None, False),
        (Resources(gpus_per_node="4"), False, False),
        (Resources(), True, True),
    ],
)
def test_nv_follows_the_gpus(resources: Resources, nv: bool | None, expected: bool) -> None:
    made = planned(SPEC, SLURM, resources=resources, nv=nv, image=OURS)
    assert made.gpus.vendor is (GpuVendor.NVIDIA if expected else None)


@pytest.mark.parametrize(
    ("file", "binds"),
    [
        ("/usr/bin/env", ()),  # the image's: with the host's folder in its place nothing runs
        ("/bin/bash", ()),
        ("/usr/local/lib/python3/x.py", ("/usr/local/lib/python3/x.py",)),
        ("/train.py", ("/train.py",)),
        ("/opt/mine/train.py", ("/opt/mine",)),
        ("/home/ada/train.py", ("/home/ada",)),
    ],
)
def test_no_trainer_brings_a_system_folder_of_the_host(file: str, binds: tuple[str, ...]) -> None:
    trainer = Trainer("t", None, Path(file))
    made = planned(SPEC, SLURM, trainer=trainer, image=OURS)
    assert tuple(bind.source for bind in made.binds) == binds


def test_binds_of_data_and_of_the_users_own_file() -> None:
    trainer = Trainer("t", None, Path("/home/ada/t.py"))
    data = (
        Dataset("tokens", Path("/scratch/tokens")),
        Dataset("images", Path("/scratch/images.sqsh"), squashfs=True),
    )
    spec = replace(SPEC, data=data, trainer=trainer)
    assert planned(spec, SLURM, image=OURS).binds == (
        BindMount("/scratch/tokens", "/data/tokens", True),
        BindMount("/scratch/images.sqsh", "/data/images", True, "/"),
        BindMount("/home/ada", "/home/ada"),
    )


def test_a_recipe_that_the_image_lacks_is_brought_along() -> None:
    assert not planned(SPEC, SLURM, image=OURS).brings_recipe
    assert planned(SPEC, SLURM, image=FOREIGN).brings_recipe


def test_a_copied_recipe_finds_what_recipes_share() -> None:
    copied = replace(SPEC, trainer=Trainer("mine", None, Path("/mine.py"), uses_recipes=True))
    plain = replace(SPEC, trainer=Trainer("mine", None, Path("/mine.py")))
    assert planned(copied, SLURM, image=FOREIGN).brings_recipe
    assert not planned(copied, SLURM, image=OURS).brings_recipe
    assert not planned(plain, SLURM, image=FOREIGN).brings_recipe


def test_an_image_for_another_machine() -> None:
    arm = replace(OURS, architecture="arm64")
    here = replace(SLURM, architecture="amd64")
    (refusal,) = planned(SPEC, here, scheduler=SchedulerName.LOCAL, image=arm).refusals
    assert sentences.told(refusal)[:2] == ("architecture-of-machine", "--scheduler slurm")
    made = planned(SPEC, here, image=arm)
    reasons = {choice.id: choice.reason for choice in made.choices}
    assert reasons[ChoiceId.ARCHITECTURE] == "this machine is amd64, the nodes must be arm64"


def test_each_variable_of_the_users_that_wins_is_told_once() -> None:
    """Whichever step sets one of that name: threads first, to resume last."""
    own = {"OMP_NUM_THREADS": "7", "PMIX_MCA_gds": "ds21", "RESUME": "never", "USER": "ada"}
    site = replace(SLURM, environment=own)
    made = planned(SPEC, site, image=OURS, requeue=True)
    assert sentences.ids(made.warnings) == ["variable-kept"] * 3


def test_the_image_is_looked_for_by_the_runtime_that_is_then_planned() -> None:
    profile = Profile("p", runtimes=(RuntimeName.SHIFTER, RuntimeName.PODMAN_HPC))
    queue = Site((SchedulerName.SLURM,))
    expected = execution.expected_runtime
    assert expected(RuntimeName.NONE, None, queue) is RuntimeName.NONE
    assert expected(None, None, replace(queue, profile=profile)) is RuntimeName.SHIFTER
    here = replace(queue, runtime=RuntimeName.APPTAINER, profile=profile)
    assert expected(None, None, here) is RuntimeName.APPTAINER
    assert expected(None, None, queue) is RuntimeName.APPTAINER
    for site in (queue, here, Site(), Site(profile=profile)):
        for scheduler in (None, SchedulerName.LOCAL):
            made = planned(SPEC, site, scheduler=scheduler)
            assert expected(None, scheduler, site) == made.launching.runtime
