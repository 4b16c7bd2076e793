"""GPUs, CPUs and partitions of the nodes, in the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners import planning
from runners.core import gpus
from runners.core.model import ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.plan import Plan
from runners.core.remedy import change, command
from runners.core.site import Partition, Site
from runners.core.trainer import Trainer
from runners.planning.case import Case
from runners.schedulers import slurm_script
from runners.script import launchers

from ..tables import each

SPEC = JobSpec(
    "job", ImageInfo(Path("/i/a.sif")), Trainer("t", None, Path("/t.py")), Resources(), Path("/r")
)
IMAGE = ImageInfo(
    Path("/i/a.sif"),
    {"horovod.controllers": "gloo", "horovod.operations": "nccl,gloo", "cuda.version": "12.8"},
)
SITE = Site(
    ("slurm",),
    ("none", "pmix"),
    "apptainer",
    task_plugin="affinity,cgroup",
    partitions=(
        Partition("cpu", nodes=10, cpus=32, time_limit="1-00:00:00", default=True),
        Partition("a100", nodes=4, cpus=64, gpus=(("A100", 8),)),
        Partition("mixed", nodes=4, cpus=32, gpus=(("T4", 8), ("V100", 2))),
    ),
)


def solved(resources: Resources, site: Site = SITE, image: ImageInfo = IMAGE) -> Plan:
    return planning.solve(Case(replace(replace(SPEC, resources=resources), image=image), site))


def values(made: Plan) -> dict[str, str | float]:
    return {choice.id: choice.value for choice in made.choices}


@each(
    (Resources(gpus_per_node="A100:4"), ("A100", 4)),
    (Resources(gpus_per_node="4"), ("", 4)),
    (Resources(nodes=2, gpus="8"), ("", 4)),
    (Resources(nodes=2, ntasks=8, gpus_per_task="1"), ("", 4)),
    (Resources(nodes=2, ntasks=3, gpus_per_task="1"), ("", 2)),  # on the fuller one
    (Resources(gres="gpu:A100:2,nvme:1"), ("A100", 2)),
    (Resources(gres="gpu"), ("", 1)),
    (Resources(gres="gpu:a100_1g.5gb:7"), ("a100_1g.5gb", 7)),
    (Resources(gres="nvme:1"), None),
    (Resources(), None),
)
def test_ways_to_ask_for_gpus(resources: Resources, expected: tuple[str, int] | None) -> None:
    assert gpus.on_a_node(resources) == expected


@each(
    (Resources(gpus_per_node="1"), "partition cpu has no GPUs", "--partition a100"),
    (
        Resources(partition="a100", gpus_per_node="V100:2"),
        "partition a100 has no GPUs of type V100",
        "--partition mixed",
    ),
    (Resources(partition="a100", gpus_per_node="9"), "no node of partition a100 has 9", ""),
    (
        Resources(partition="mixed", gpus_per_node="V100:4"),
        "no node of partition mixed has 4 GPUs",
        "",
    ),
    (
        Resources(partition="a100", gpus_per_node="4", ntasks_per_node=8),
        "NCCL refuses two ranks on one GPU",
        "--ntasks-per-node 4",
    ),
    (Resources(ntasks_per_node=40), "40 ranks with 1 CPU each: too many", "--overcommit"),
    (
        Resources(ntasks_per_node=8, cpus_per_task=8),
        "8 ranks with 8 CPUs each: too many for a node of partition cpu",
        "--cpus-per-task 4",
    ),
    (Resources(ntasks=64), "too many", "--nodes 2"),
    (Resources(ntasks_per_node=40), "too many", "--ntasks-per-node 32, leave out --ntasks"),
    (Resources(nodes=5, partition="a100"), "a100 has 4 nodes, fewer", "--partition cpu"),
    (Resources(nodes=11), "cpu has 10 nodes, fewer", "--nodes 10"),
    (Resources(time="25:00:00"), "a time limit of 1-00:00:00, less", "--time 1-00:00:00"),
    (Resources(time="1-1"), "less than --time 1-1", "--partition mixed"),
)
def test_what_the_partition_does_not_have(resources: Resources, words: str, remedy: str) -> None:
    (refusal,) = solved(resources).refusals
    assert words in refusal.what
    assert not remedy or remedy in map(str, refusal.remedies)


@each(
    Resources(time="24:00:00"),
    Resources(time="2-0", partition="a100"),  # nothing is known of its limit
    Resources(time="2-0", qos="long"),
)
def test_time_that_there_is(resources: Resources) -> None:
    assert solved(resources).refusals == ()


def test_a_rank_has_its_gpus_part_of_the_node() -> None:
    made = solved(Resources(partition="a100", gpus_per_node="4", ntasks_per_node=4))
    assert made.resources.cpus_per_task == 8
    assert made.cpus.bind == "cores"
    assert values(made)["data-plane"] == "nccl"
    assert values(made)["gpu-of-a-rank"] == "local-rank"


def test_one_visible_gpu_for_each_rank() -> None:
    made = solved(Resources(partition="a100", ntasks_per_node=4, gpus_per_task="1"))
    assert values(made)["gpu-of-a-rank"] == "visible"
    assert not made.refusals


@each(
    ("22.05.8", (), ["--gpus-per-node 4, leave out --gpus-per-task"]),
    (
        "23.11.10",
        (),
        [
            "--gpus-per-node 4, leave out --gpus-per-task",
            "--srun-arg=--gres-flags=allow-task-sharing",
        ],
    ),
    ("24.11.5", ("--gres-flags=allow-task-sharing",), None),
)
def test_what_gpus_per_task_costs_and_what_keeps_peer_to_peer(
    version: str, args: tuple[str, ...], offers: list[str] | None
) -> None:
    asked = Resources(partition="a100", ntasks_per_node=4, gpus_per_task="1")
    spec = replace(SPEC, resources=asked, image=IMAGE, srun_args=args)
    made = planning.solve(Case(spec, replace(SITE, slurm_version=version)))
    told = [each for each in made.warnings if "--gpus-per-task" in each.what]
    assert [list(map(str, each.remedies)) for each in told] == ([offers] if offers else [])
    one = replace(spec, resources=replace(asked, ntasks_per_node=1))
    assert not planning.solve(Case(one, SITE)).warnings


@each(
    (("--contain", "--bind=/x"), 2, (), "the 2 ranks of a node share no memory by it"),
    (("-C", "--bind=/x"), 1, ("--num-workers", "4"), "data loading workers may fill it"),
    (("--contain", "--bind=/x"), 1, ("--workers=0",), ""),
    (("--bind=/x",), 2, (), ""),
)
def test_a_container_apart_has_its_own_shared_memory(
    args: tuple[str, ...], tasks: int, trainer_args: tuple[str, ...], words: str
) -> None:
    trainer = Trainer("t", None, Path("/t.py"), trainer_args)
    resources = Resources(ntasks_per_node=tasks)
    spec = replace(SPEC, image=IMAGE, trainer=trainer, resources=resources, apptainer_args=args)
    told = [each for each in planning.solve(Case(spec, SITE)).warnings if "/dev/shm" in each.what]
    assert len(told) == bool(words)
    for warning in told:
        assert words in warning.what
        (remedy,) = map(str, warning.remedies)
        assert remedy == "--apptainer-arg=--bind=/x, leave out --apptainer-arg"


@each(("4", 4, "nccl"), ("2", 4, "nccl"), (None, 2, "gloo"))
def test_a_script_of_torch_distributed_exchanges_by_its_own_backend(
    gpus: str | None, tasks: int, plane: str
) -> None:
    trainer = Trainer("t", None, Path("/t.py"), seen_world="torch.distributed")
    asked = Resources(
        partition="a100" if gpus else "cpu", gpus_per_node=gpus, ntasks_per_node=tasks
    )
    made = planning.solve(Case(replace(SPEC, resources=asked, image=IMAGE, trainer=trainer), SITE))
    assert values(made)["data-plane"] == plane
    assert bool(made.refusals) is (gpus == "2")  # two ranks on one GPU


def test_ranks_share_a_gpu_where_nccl_is_told_to_allow_it() -> None:
    asked = Resources(partition="a100", gpus_per_node="2", ntasks_per_node=4)
    spec = replace(SPEC, resources=asked, image=IMAGE, env=(("NCCL_MULTI_RANK_GPU_ENABLE", "1"),))
    made = planning.solve(Case(spec, SITE))
    assert not made.refusals
    assert "4 ranks on a node with 2 GPUs share them" in " ".join(w.what for w in made.warnings)


def test_idle_gpus_and_parts_of_gpus_are_told() -> None:
    made = solved(Resources(partition="a100", gpus_per_node="8", ntasks_per_node=2))
    assert "2 ranks on a node with 8 GPUs: 6 stay idle" in [one.what for one in made.warnings]
    parts = replace(SITE, partitions=())
    made = solved(Resources(gres="gpu:1g.10gb:2", ntasks_per_node=2), parts)
    assert any("MIG" in one.what for one in made.warnings)


def test_amd_gpus_get_rocm() -> None:
    nodes = (Partition("mi", nodes=2, cpus=64, gpus=(("mi250", 8),), default=True),)
    made = solved(Resources(gpus_per_node="mi250:8"), replace(SITE, partitions=nodes))
    assert (made.gpus.nv, made.gpus.rocm) == (False, True)
    asked = replace(SPEC, resources=Resources(gpus_per_node="8"))
    there = replace(SITE, partitions=(), amd=True)
    assert planning.solve(Case(replace(asked, image=IMAGE), there)).gpus.rocm
    assert planning.solve(Case(replace(replace(asked, nv=True), image=IMAGE), there)).gpus.nv


def test_a_gpu_job_without_nccl_is_told() -> None:
    image = replace(IMAGE, labels={**IMAGE.labels, "horovod.operations": "gloo"})
    made = solved(Resources(partition="a100", gpus_per_node="4", ntasks_per_node=4), image=image)
    assert values(made)["data-plane"] == "gloo"
    assert any("no NCCL" in one.what for one in made.warnings)


@each(
    (Resources(cpus_per_task=4), {}, "cores"),
    (Resources(cpus_per_task=1), {}, None),
    (Resources(cpus_per_task=4), {"task_plugin": "task/none"}, None),
    (Resources(cpus_per_task=4), {"environment": {"SLURM_CPU_BIND": "none"}}, "none"),
    (
        Resources(cpus_per_task=4),
        {"environment": {"SLURM_CPU_BIND": "mask_cpu:0x1", "SLURM_CPU_BIND_TYPE": "mask_cpu:"}},
        "cores",
    ),
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
    made = planning.solve(
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


@each(
    (Resources(cpus_per_task=4), "openmpi", True),
    (Resources(cpus_per_task=4, gpus_per_node="1"), "openmpi", False),
    (Resources(cpus_per_task=4), "mpich", False),
)
def test_on_cpus_a_rank_that_waits_in_mpi_gives_way_to_training(
    asked: Resources, flavour: str, expected: bool
) -> None:
    image = replace(IMAGE, labels={"horovod.controllers": "mpi", "mpi.flavour": flavour})
    made = solved(asked, image=image)
    names = {variable.name for variable in made.variables}
    assert ("OMPI_MCA_mpi_yield_when_idle" in names) is expected
    told = [choice for choice in made.choices if choice.id == "mpi-gives-way"]
    assert [bool(decision.evidence) for decision in told] == [True] * expected


INSIDE = replace(SITE, allocation="12", allocated_nodes=2, allocated_cpus=4)


def inside(
    resources: Resources, unasked: frozenset[str] = frozenset(), cpus: int = 4, tasks: int = 0
) -> Plan:
    spec = replace(SPEC, scheduler=SchedulerName.ALLOCATION, resources=resources)
    site = replace(INSIDE, allocated_cpus=cpus, allocated_tasks=tasks)
    return planning.solve(Case(replace(spec, image=IMAGE), site, unasked=unasked))


@each(
    (Resources(nodes=2, cpus_per_task=2), 1, 1),
    (Resources(nodes=2, ntasks_per_node=2, cpus_per_task=4), 4, 2),
    (Resources(nodes=2, cpus_per_task=2), 4, 2),
    (Resources(nodes=2, cpus_per_task=2), 0, 2),
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


@each(
    (Resources(nodes=2), frozenset(), 4),
    (Resources(nodes=2, ntasks_per_node=4), frozenset({"ntasks-per-node"}), 4),
    (Resources(nodes=2, ntasks_per_node=1), frozenset(), 2),
    (Resources(nodes=2, ntasks=3), frozenset(), 3),
)
def test_without_a_number_an_allocation_says_how_many_ranks_a_node_has(
    asked: Resources, unasked: frozenset[str], ranks: int
) -> None:
    made = inside(asked, unasked, tasks=2)
    assert not made.refusals
    assert made.resources.tasks == ranks


@each(
    (Resources(), frozenset({"nodes"}), 2),
    (Resources(), frozenset(), 1),
    (Resources(ntasks=1), frozenset({"nodes"}), 1),
    (Resources(nodelist="n2"), frozenset({"nodes"}), 1),
)
def test_without_a_number_an_allocation_gives_all_its_nodes(
    asked: Resources, unasked: frozenset[str], nodes: int
) -> None:
    assert inside(asked, unasked).resources.nodes == nodes


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


@each(
    ("/tmp/ada/runs", "", False),
    ("/tmp/ada/runs", "nfs4", True),
    ("/home/ada/runs", "tmpfs", False),
    ("/home/ada/runs", "ext4", True),
    ("/tmpfiles/runs", "", True),
)
def test_folders_of_this_machine_alone(path: str, kind: str, seen: bool) -> None:
    spec, kinds = replace(SPEC, runs_dir=Path(path)), {Path(path): kind}
    site = replace(SITE, environment={"RUNNER_SCRATCH": "/tmp/own", "SCRATCH": "/scratch/ada"})
    refusals = planning.solve(Case(replace(spec, image=IMAGE), site, filesystems=kinds)).refusals
    assert [one.what for one in refusals] == (
        [] if seen else [f"the nodes of a job cannot access the run's folder, {path}"]
    )
    assert seen or refusals[0].remedies[0] == change(runs_dir="/scratch/ada/runs")
    alone = replace(spec, scheduler=SchedulerName.LOCAL)
    assert not planning.solve(Case(replace(alone, image=IMAGE), site, filesystems=kinds)).refusals


def test_an_environment_without_the_trainers_framework() -> None:
    bare = ImageInfo(Path("/e"), found={"torch.version": "none"})
    spec = replace(
        SPEC, runtime=RuntimeName.NONE, trainer=replace(SPEC.trainer, requires="pytorch")
    )
    refusals = planning.solve(Case(replace(spec, image=bare), SITE)).refusals
    assert "needs pytorch, which e does not have" in refusals[0].what
    install = command("/e/bin/python", "-m", "pip", "install", "torch")
    assert install in refusals[0].remedies
