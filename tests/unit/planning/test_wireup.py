"""Which MPI goes with which launcher and --mpi=; `make test-matrix` proves the same for real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.cli.train import plan_summary
from runners.contract.enums import Controller, ProcessGroup
from runners.core.diagnosis import warning
from runners.core.model import (
    ImageInfo,
    JobSpec,
    LauncherName,
    MpiFlavour,
    Resources,
    RuntimeName,
    SchedulerName,
)
from runners.core.plan import Plan
from runners.core.site import Mpirun, Site
from runners.core.trainer import Trainer

from .. import sentences
from ..plans import planned

TWO_NODES = Resources(nodes=2, ntasks_per_node=2)
SPEC = JobSpec(
    "job", ImageInfo(Path("/i/a.sif")), Trainer("t", None, Path("/t.py")), TWO_NODES, Path("/runs")
)
SITE = Site(
    (SchedulerName.SLURM,),
    ("none", "pmi2", "pmix", "pmix_v5"),
    RuntimeName.APPTAINER,
    mpirun=Mpirun(MpiFlavour.OPEN_MPI, "5.0.7"),
    cwd="/s",
)


def foreign(controllers: str, **found: str) -> ImageInfo:
    facts = {name.replace("_", "."): value for name, value in found.items()}
    return ImageInfo(Path("/i/a.sif"), inspected={"horovod.controllers": controllers, **facts})


OPENMPI = foreign("mpi,gloo", mpi_flavour="openmpi", mpi_version="5.0.7", pmix_version="5.0.6")
MPICH = foreign("mpi,gloo", mpi_flavour="mpich", mpi_version="4.0.2")
NO_MPI = foreign("gloo", mpi_version="none")
UNKNOWN = ImageInfo(Path("/i/a.sif"), problem=warning("x", "nothing can be run in it"))


def solved(image: ImageInfo, controller: str, mpi: str | None, launcher: str) -> Plan:
    spec = replace(
        SPEC, controller=Controller(controller), mpi=mpi, launcher=LauncherName(launcher)
    )
    return planned(spec, SITE, image=image)


@pytest.mark.parametrize(
    ("image", "controller", "mpi", "launcher", "works"),
    [
        (OPENMPI, "mpi", "pmix", "srun", True),
        (OPENMPI, "mpi", "pmix_v5", "srun", True),
        (OPENMPI, "mpi", "pmi2", "srun", False),
        (OPENMPI, "mpi", "none", "srun", False),
        (OPENMPI, "mpi", None, "mpirun", True),
        (OPENMPI, "mpi", None, "horovodrun", True),
        (OPENMPI, "gloo", "pmi2", "srun", True),
        (OPENMPI, "gloo", None, "mpirun", True),
        (MPICH, "mpi", "pmi2", "srun", True),
        (MPICH, "mpi", "pmix", "srun", False),
        (MPICH, "mpi", "none", "srun", False),
        (MPICH, "mpi", None, "mpirun", False),
        (MPICH, "gloo", "pmix", "srun", True),
        (NO_MPI, "mpi", "pmix", "srun", False),
        (NO_MPI, "gloo", "none", "srun", True),
        (NO_MPI, "gloo", None, "mpirun", True),
        (NO_MPI, "gloo", None, "horovodrun", True),
    ],
)
def test_two_nodes(
    image: ImageInfo, controller: str, mpi: str | None, launcher: str, works: bool
) -> None:
    made = solved(image, controller, mpi, launcher)
    assert (not made.refusals) is works, made.refusals
    assert works or made.refusals[0].remedies


@pytest.mark.parametrize(("image", "mpi"), [(OPENMPI, "pmix"), (MPICH, "pmi2"), (UNKNOWN, "pmix")])
def test_the_type_that_goes_with_the_images_mpi(image: ImageInfo, mpi: str) -> None:
    made = planned(SPEC, SITE, image=image, controller=Controller.MPI)
    assert made.wireup.mpi == mpi
    assert not made.refusals


@pytest.mark.parametrize(
    ("world", "options", "ids"),
    [
        (ProcessGroup.HOROVOD, {"launcher": LauncherName.TORCHRUN}, ["agents-world"]),
        (ProcessGroup.TENSORFLOW, {"launcher": LauncherName.TORCHRUN}, ["agents-world"]),
        (ProcessGroup.TORCH, {"launcher": LauncherName.TORCHRUN}, []),
        (ProcessGroup.HOROVOD, {"controller": Controller.NONE}, ["world-without-controller"]),
        (ProcessGroup.TORCH, {"controller": Controller.NONE}, []),
        (None, {"launcher": LauncherName.TORCHRUN}, []),
    ],
)
def test_a_recipe_is_refused_where_its_framework_is_told_of_no_other_rank(
    world: ProcessGroup | None, options: dict[str, Any], ids: list[str]
) -> None:
    trainer = Trainer("recipe", "recipes.recipe", None, world=world)
    made = planned(SPEC, SITE, trainer=trainer, **options, image=OPENMPI)
    assert sentences.ids(made.refusals) == ids
    if ids:
        (gone,) = made.refusals[0].remedies[0].leave_out
        assert gone in options


@pytest.mark.parametrize(("ranks", "works"), [(1, True), (2, False)])
def test_a_recipe_of_one_process_has_one_rank(ranks: int, works: bool) -> None:
    trainer = Trainer("tokenize", "recipes.tokenize", None, world=ProcessGroup.NONE)
    spec = replace(SPEC, trainer=trainer, resources=Resources(nodes=ranks))
    made = planned(spec, SITE, image=OPENMPI)
    assert sentences.ids(made.refusals) == ([] if works else ["one-process"])
    assert made.wireup.controller is Controller.NONE
    assert plan_summary.line(made).endswith("one process")


def test_a_recipe_of_horovods_is_refused_where_there_is_none() -> None:
    spec = replace(
        SPEC, trainer=Trainer("recipe", "recipes.recipe", None, world=ProcessGroup.HOROVOD)
    )
    made = planned(spec, SITE, image=foreign("", horovod_version="none"))
    (refusal,) = made.refusals
    assert sentences.told(refusal) == ("horovod-missing",)


def test_an_unknown_image_gets_gloo_and_the_reason_why_it_is_unknown() -> None:
    made = planned(SPEC, SITE, image=UNKNOWN)
    assert made.wireup.controller == "gloo"
    (choice,) = [c for c in made.choices if c.id == "controller"]
    assert "nothing can be run in it" in choice.evidence


def test_remedies_are_ranked_and_each_of_them_works() -> None:
    refusal = solved(OPENMPI, "mpi", "pmi2", "srun").refusals[0]
    told = sentences.told(refusal)
    assert told[:3] == ("mpi-type-mismatch", "--mpi pmix", "--controller gloo")
    assert not solved(OPENMPI, "mpi", "pmix", "srun").refusals
    assert not solved(OPENMPI, "gloo", "pmi2", "srun").refusals


def test_horovodrun_reaches_other_nodes_where_the_job_can_have_an_ssh() -> None:
    assert solved(OPENMPI, "gloo", None, "horovodrun").ssh
    spec = replace(
        SPEC,
        controller=Controller.GLOO,
        launcher=LauncherName.HOROVODRUN,
        runtime=RuntimeName.PODMAN,
    )
    refusal = planned(spec, SITE, image=OPENMPI).refusals[0]
    assert sentences.told(refusal)[:2] == ("horovodrun-nodes", "--launcher srun")
    alone = replace(
        SPEC,
        resources=Resources(ntasks=2),
        launcher=LauncherName.HOROVODRUN,
        controller=Controller.GLOO,
    )
    made = planned(alone, SITE, image=OPENMPI)
    assert not made.refusals
    assert not made.ssh


@pytest.mark.parametrize(
    ("changes", "resources", "remedy"),
    [
        ({"controller": Controller.GLOO}, Resources(nodes=2), "leave out --controller"),
        ({}, Resources(nodes=2, ntasks=3), "--ntasks 4"),
        ({}, Resources(nodes=2, gpus_per_task="1"), "leave out --gpus-per-task"),
        ({"requeue": True}, Resources(nodes=2, time="10"), "leave out --launcher"),
    ],
)
def test_what_a_launcher_with_ranks_of_its_own_cannot_do(
    changes: dict[str, Any], resources: Resources, remedy: str
) -> None:
    spec = replace(SPEC, launcher=LauncherName.TORCHRUN, resources=resources, **changes)
    refusals = planned(spec, SITE, image=OPENMPI).refusals
    assert remedy in [str(offered) for refusal in refusals for offered in refusal.remedies]


def test_such_a_launcher_has_no_controller_and_no_pmi() -> None:
    made = planned(SPEC, SITE, launcher=LauncherName.TORCHRUN, image=OPENMPI)
    assert (made.wireup.controller, made.wireup.mpi, made.refusals) == ("none", None, ())


def test_mpirun_of_another_mpi_and_none_at_all() -> None:
    hydra = replace(SITE, mpirun=Mpirun(MpiFlavour.MPICH, "4.0.2"))
    spec = replace(SPEC, launcher=LauncherName.MPIRUN, controller=Controller.MPI)
    assert sentences.ids(planned(spec, hydra, image=OPENMPI).refusals) == ["mpirun-mismatch"]
    assert not planned(spec, hydra, image=MPICH).refusals
    nothing = replace(SITE, mpirun=None)
    assert sentences.ids(planned(spec, nothing, image=OPENMPI).refusals) == ["mpirun-missing"]


@pytest.mark.parametrize(
    ("image", "host", "works"),
    [
        ("4.1.4", "4.1.4", True),
        ("4.1.4", "5.0.7", False),
        ("5.0.7", "4.1.4", True),
        ("5.0.7", "5.0.7", True),
        ("5.0.7", "6.0.0rc2", True),
        ("4.1.4", "6.0.0rc2", True),
        ("5.0.7", "7.0.0", False),
    ],
)
def test_generations_of_open_mpi_under_mpirun(image: str, host: str, works: bool) -> None:
    spec = replace(SPEC, launcher=LauncherName.MPIRUN, controller=Controller.MPI)
    inside = foreign("mpi,gloo", mpi_flavour="openmpi", mpi_version=image, pmix_version="4.2.2")
    made = planned(spec, replace(SITE, mpirun=Mpirun(MpiFlavour.OPEN_MPI, host)), image=inside)
    assert (not made.refusals) is works
    if not works:
        (refusal,) = made.refusals
        remedies = ("--controller gloo", "--launcher srun")
        assert sentences.told(refusal) == ("mpirun-mismatch", *remedies)


@pytest.mark.parametrize(
    ("image", "names"),
    [
        (
            OPENMPI,
            {
                "OMPI_MCA_btl_vader_single_copy_mechanism",
                "OMPI_MCA_mpi_abort_delay",
                "OMPI_MCA_mpi_yield_when_idle",
                "PMIX_MCA_gds",
            },
        ),
        (MPICH, {"UCX_TLS", "MPIR_CVAR_CH4_NETMOD"}),
        (foreign("mpi", mpi_flavour="mpich", mpi_device="ch4:ucx"), {"UCX_TLS"}),
        (foreign("mpi", mpi_flavour="mpich", mpi_device="ch4:ofi"), {"MPIR_CVAR_CH4_NETMOD"}),
    ],
)
def test_what_mpi_in_containers_needs(image: ImageInfo, names: set[str]) -> None:
    made = planned(SPEC, SITE, controller=Controller.MPI, image=image)
    assert {v.name for v in made.variables} == {*names, "OMP_NUM_THREADS"}


@pytest.mark.parametrize("runtime", [RuntimeName.APPTAINER, RuntimeName.NONE])
def test_an_mpich_that_may_hang_is_told(runtime: RuntimeName) -> None:
    def warned(version: str, device: str) -> bool:
        image = foreign("mpi", mpi_flavour="mpich", mpi_version=version, mpi_device=device)
        spec = replace(SPEC, controller=Controller.MPI, runtime=runtime)
        warnings = planned(spec, SITE, image=image).warnings
        return "mpich-may-hang" in sentences.ids(warnings)

    assert warned("4.0.2", "ch4:ucx")
    assert not warned("5.0.2", "ch4:ucx ofi")
    assert not warned("4.0.2", "ch4:ofi")


def test_an_image_without_horovod_has_no_controller() -> None:
    made = planned(SPEC, SITE, image=foreign("", horovod_version="none"))
    assert (made.wireup.controller, made.warnings, made.refusals) == ("none", (), ())


@pytest.mark.parametrize(("image", "mpi"), [(OPENMPI, "pmix"), (MPICH, "pmi2"), (NO_MPI, "none")])
def test_without_a_controller_srun_offers_what_the_images_mpi_speaks(
    image: ImageInfo, mpi: str
) -> None:
    """For programs that use it themselves, as mpi4py does."""
    made = planned(SPEC, SITE, controller=Controller.NONE, image=image)
    assert (made.wireup.controller, made.wireup.mpi, made.refusals) == ("none", mpi, ())


def test_an_option_without_effect_is_told() -> None:
    made = solved(OPENMPI, "mpi", "pmix", "mpirun")
    assert made.wireup.mpi is None
    assert "mpi-type-unused" in sentences.ids(made.warnings)


def test_a_slurm_that_did_not_answer_is_told_and_does_not_stop_the_plan() -> None:
    deaf = replace(SITE, mpi_types=(), problems=("sinfo: no answer within 10 s",))
    made = planned(SPEC, deaf, controller=Controller.MPI, image=OPENMPI)
    assert made.wireup.mpi == "pmix"
    assert sentences.ids(made.warnings) == ["machine-answers"]
