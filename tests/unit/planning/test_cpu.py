"""The CPUs of a rank, how it is bound to them, and ranks that share one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runners.core.model import Resources
from runners.core.remedy import change
from runners.planning import solver
from runners.planning.case import Case
from runners.schedulers import slurm_script
from runners.script import launchers

from .slurm_site import IMAGE, SITE, SPEC, inside, solved, values


def test_a_rank_has_its_gpus_part_of_the_node() -> None:
    made = solved(Resources(partition="a100", gpus_per_node="4", ntasks_per_node=4))
    assert made.resources.cpus_per_task == 8
    assert made.cpus.bind == "cores"
    assert values(made)["gradient-transport"] == "nccl"
    assert values(made)["gpu-of-a-rank"] == "local-rank"


@pytest.mark.parametrize(
    ("resources", "changes", "expected"),
    [
        (Resources(cpus_per_task=4), {}, "cores"),
        (Resources(cpus_per_task=1), {}, None),
        (Resources(cpus_per_task=4), {"task_plugin": "task/none"}, None),
        (Resources(cpus_per_task=4), {"environment": {"SLURM_CPU_BIND": "none"}}, "none"),
        (
            Resources(cpus_per_task=4),
            {"environment": {"SLURM_CPU_BIND": "mask_cpu:0x1", "SLURM_CPU_BIND_TYPE": "mask_cpu:"}},
            "cores",
        ),
    ],
)
def test_binding(resources: Resources, changes: dict[str, object], expected: str | None) -> None:
    site = replace(SITE, **changes)  # type: ignore[arg-type]
    assert solved(resources, site).cpus.bind == expected


def test_threads_are_the_cpus_of_a_rank() -> None:
    made = solved(Resources(cpus_per_task=4))
    assert [(v.name, v.value) for v in made.variables] == [("OMP_NUM_THREADS", "4")]


def test_ranks_that_share_a_cpu_give_it_up_while_they_wait() -> None:
    image = replace(IMAGE, labels={"horovod.controllers": "mpi", "mpi.flavour": "openmpi"})
    made = solved(Resources(ntasks_per_node=40, overcommit=True), image=image)
    assert not made.refusals
    assert "OMPI_MCA_mpi_yield_when_idle" in {variable.name for variable in made.variables}


@pytest.mark.parametrize(("ranks", "asked"), [(1, True), (2, False)])
@pytest.mark.parametrize(("cpus", "unasked"), [(1, frozenset()), (4, frozenset({"cpus-per-task"}))])
def test_ranks_that_share_a_cpu_ask_slurm_for_no_number_of_them(
    ranks: int, asked: bool, cpus: int, unasked: frozenset[str]
) -> None:
    """With both sbatch leaves the job pending for ever, and srun its step."""
    wanted = Resources(nodes=2, ntasks_per_node=ranks, cpus_per_task=cpus, overcommit=True)
    made = solver.solve(
        Case(replace(replace(SPEC, resources=wanted), image=IMAGE), SITE, unasked=unasked)
    )
    assert not made.refusals
    options = slurm_script.resource_options(made.resources)
    assert "--overcommit" in options
    assert (f"--cpus-per-task={cpus}" in options) is asked
    assert any("cpus-per-task" in word for word in launchers.srun(made)) is asked


def test_ranks_that_share_a_cpu_and_should_have_more_are_refused() -> None:
    wanted = Resources(ntasks_per_node=2, cpus_per_task=4, overcommit=True)
    (refusal,) = solved(wanted).refusals
    assert refusal.remedies[0] == change(cpus_per_task=1)
    assert solved(replace(wanted, cpus_per_task=1)).refusals == ()


@pytest.mark.parametrize(
    ("asked", "flavour", "expected"),
    [
        (Resources(cpus_per_task=4), "openmpi", True),
        (Resources(cpus_per_task=4, gpus_per_node="1"), "openmpi", False),
        (Resources(cpus_per_task=4), "mpich", False),
    ],
)
def test_on_cpus_a_rank_that_waits_in_mpi_gives_way_to_training(
    asked: Resources, flavour: str, expected: bool
) -> None:
    image = replace(IMAGE, labels={"horovod.controllers": "mpi", "mpi.flavour": flavour})
    made = solved(asked, image=image)
    names = {variable.name for variable in made.variables}
    assert ("OMPI_MCA_mpi_yield_when_idle" in names) is expected
    told = [choice for choice in made.choices if choice.id == "mpi-yield-when-idle"]
    assert [bool(decision.evidence) for decision in told] == [True] * expected


@pytest.mark.parametrize(
    ("asked", "cpus", "each"),
    [
        (Resources(nodes=2, cpus_per_task=2), 1, 1),
        (Resources(nodes=2, ntasks_per_node=2, cpus_per_task=4), 4, 2),
        (Resources(nodes=2, cpus_per_task=2), 4, 2),
        (Resources(nodes=2, cpus_per_task=2), 0, 2),
    ],
)
def test_a_preset_gives_way_to_what_the_allocation_has(
    asked: Resources, cpus: int, each: int
) -> None:
    made = inside(asked, frozenset({"cpus-per-task"}), cpus)
    assert not made.refusals
    assert made.resources.cpus_per_task == each
    (choice,) = [c for c in made.choices if c.id == "cpus-per-task"]
    assert choice.value == each
    given_way = asked.cpus_per_task != each
    assert ("available per rank in job 12; as requested: " in choice.reason) is given_way


def test_what_was_typed_and_does_not_fit_the_allocation_is_refused() -> None:
    (refusal,) = inside(Resources(nodes=2, cpus_per_task=8)).refusals
    assert refusal.remedies[0] == change(cpus_per_task=4)
    (refusal,) = inside(Resources(nodes=2, ntasks_per_node=5)).refusals
    assert refusal.remedies[0] == change(overcommit=True)
    assert not inside(Resources(nodes=2, ntasks_per_node=5, overcommit=True)).refusals


def test_a_task_with_several_gpus_has_the_cpus_of_all() -> None:
    one, two = (
        solved(Resources(partition="a100", gpus_per_node="2", ntasks_per_node=number))
        for number in (1, 2)
    )
    assert one.resources.cpus_per_task == 2 * (two.resources.cpus_per_task or 0)
