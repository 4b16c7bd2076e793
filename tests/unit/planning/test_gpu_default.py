"""GPUs by default: those that an image for GPUs requests where nothing else settles them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.contract.enums import ProcessGroup
from runners.core.command_line import DEFAULT, FLAG, PRESET, PROJECT
from runners.core.model import GpuVendor, ImageInfo, RuntimeName, SchedulerName
from runners.core.plan import Plan
from runners.core.site import NodeGroup, Partition, Site
from runners.core.trainer import Trainer
from runners.planning import solver
from runners.planning.case import Case
from runners.settings import config, request
from runners.settings.config import DEFAULTS, ConfigLayer
from runners.sites import load

from .. import sentences

LABELS = {"horovod.version": "0.28.1", "horovod.operations": "nccl", "horovod.controllers": "gloo"}
CUDA = ImageInfo(Path("/i/horovod_gpu.sif"), {**LABELS, "cuda.version": "12.8"})
CPU = ImageInfo(Path("/i/horovod_cpu.sif"), {**LABELS, "cuda.version": "none"})
ROCM = ImageInfo(Path("/i/rocm.sif"), {**LABELS, "cuda.version": "none", "rocm.version": "6.2"})
OWN = Trainer("train.py", None, Path("/t/train.py"))
PACKAGED = Trainer("torch_mnist", "recipes.torch_mnist", None)
ALONE = Trainer("tokenize", "recipes.tokenize", None, world=ProcessGroup.NONE)
SESSION = Trainer("jupyter", None, None)


def partition(name: str, *groups: NodeGroup, **more: Any) -> Partition:
    gpus = tuple(dict.fromkeys(gpu for group in groups for gpu in group.gpus))
    return Partition(name, sum(g.nodes for g in groups), 64, gpus, groups=groups, **more)


A100, NONE = NodeGroup(8, (("A100", 4),), ("x86",)), NodeGroup(8, (), ("x86",))
SITE = Site(
    (SchedulerName.SLURM,),
    ("none", "pmix"),
    RuntimeName.APPTAINER,
    partitions=(partition("gpu", A100, default=True), partition("cpu", NONE)),
)
ON_CPUS = replace(SITE, partitions=(partition("cpu", NONE, default=True), partition("gpu", A100)))
UNCOUNTED = replace(SITE, partitions=(partition("main", NONE, default=True),))


def plan(
    flags: dict[str, Any],
    site: Site = SITE,
    image: ImageInfo = CUDA,
    trainer: Trainer = OWN,
    *below: ConfigLayer,
    one_of_many: bool = False,
) -> Plan:
    """Return the plan of a launch with these settings, and those of the site's profile."""
    typed = ConfigLayer(FLAG, flags)
    layers = [ConfigLayer(DEFAULT, DEFAULTS), *below, *config.site_layers(site.profile, [typed])]
    settings = config.merge([*layers, typed])
    resources = request.resources(settings, trainer.has_ranks)
    spec = request.job_spec(settings, resources, image, trainer)
    reasons, unasked = settings.reasons(), settings.unasked
    return solver.solve(Case(spec, site, reasons, unasked, one_of_many=one_of_many))


def of_profile(name: str) -> Site:
    profile = load.profile(name, {}, "as requested")
    return Site((profile.scheduler or SchedulerName.SLURM,), profile=profile, remote_site=True)


def reason(made: Plan, name: str = "gpus-per-node") -> str:
    (choice,) = [choice for choice in made.choices if choice.id == name]
    return choice.reason


def requested(made: Plan) -> tuple[str | None, int]:
    """Return the GPUs and the ranks of a node."""
    assert not made.refusals, made.refusals
    return made.resources.gpus_per_node, made.resources.tasks_of_a_node


def test_an_image_for_gpus_gets_those_of_the_nodes_and_the_plan_says_why() -> None:
    made = plan({"nodes": 4})
    assert requested(made) == ("4", 4)
    assert made.gpus.vendor is GpuVendor.NVIDIA
    assert reason(made) == "horovod_gpu.sif is for GPUs and nodes of gpu have 4"
    assert not made.warnings


@pytest.mark.parametrize(
    ("flags", "trainer", "many", "gpus"),
    [
        ({"nodes": 1}, OWN, False, 4),
        ({}, PACKAGED, False, 4),
        ({}, OWN, False, 1),
        ({}, SESSION, False, 1),
        ({"nodes": 2}, SESSION, False, 1),
        ({}, PACKAGED, True, 1),  # a run of a sweep
        ({"nodes": 1}, PACKAGED, True, 1),
        ({"nodes": 2}, PACKAGED, True, 4),  # which cannot be one GPU
    ],
)
def test_how_many(flags: dict[str, Any], trainer: Trainer, many: bool, gpus: int) -> None:
    made = plan(flags, SITE, CUDA, trainer, one_of_many=many)
    assert requested(made) == (str(gpus), gpus if trainer.command else 1)
    assert ("--gpus-per-node 4 for all of a node" in reason(made)) is (gpus == 1)


@pytest.mark.parametrize(
    ("flags", "gpus", "ranks"),
    [
        ({"gpus-per-node": "2"}, "2", 2),
        ({"gpus-per-node": "0"}, None, 1),
        ({"gpus-per-task": "1", "ntasks-per-node": 2}, None, 2),
        ({"gres": "gpu:A100:3"}, None, 3),
        ({"gres": "gpu:0"}, None, 1),
        ({"nv": False}, None, 1),
        ({"sbatch-arg": ["--gres=gpu:2"]}, None, 1),
        ({"sbatch-arg": ["--gres", "gpu:2"]}, None, 1),
        ({"sbatch-arg": ["-G4"]}, None, 1),
        ({"sbatch-arg": ["--gpus-per-task=1"]}, None, 1),
        ({"gres": "nvme:1"}, "4", 4),  # says nothing of GPUs
        ({"sbatch-arg": ["--gres=nvme:1", "--gpu-bind=none"]}, "4", 4),
        ({"ntasks-per-node": 2}, "2", 2),
        ({"ntasks": 4}, "2", 2),
        ({"nv": True}, "4", 4),
    ],
)
def test_what_is_typed_is_not_changed(flags: dict[str, Any], gpus: str | None, ranks: int) -> None:
    made = plan({"nodes": 2, **flags})
    assert requested(made) == (gpus, ranks)
    assert not [warning for warning in made.warnings if warning.id == "gpu-image-on-cpus"]
    assert made.resources.gres == (None if flags.get("gres") == "gpu:0" else flags.get("gres"))


@pytest.mark.parametrize(
    ("flags", "file", "gpus"),
    [
        ({"gpus-per-node": "0"}, {"gpus-per-task": "1"}, None),
        ({"gpus-per-node": "0"}, {"gres": "gpu:2,nvme:1"}, None),
        ({"gpus-per-node": "2"}, {"gpus": "0"}, "2"),
        ({}, {"gpus-per-node": "0"}, None),
    ],
)
def test_what_is_typed_wins_over_a_file(
    flags: dict[str, Any], file: dict[str, Any], gpus: str | None
) -> None:
    made = plan(flags, SITE, CUDA, OWN, ConfigLayer(PROJECT, file, "runner.toml"))
    assert requested(made) == (gpus, int(gpus or 1))
    assert made.resources.gpus_per_task is None
    assert made.resources.gres == ("nvme:1" if "gres" in file else None)


def test_gpus_that_a_request_of_sbatch_brings_get_the_driver() -> None:
    made = plan({"sbatch-arg": ["--gres=gpu:2"]})
    assert made.gpus.vendor is GpuVendor.NVIDIA


def test_a_preset_s_cpus_are_for_cpus_and_a_rank_gets_its_gpu_s_share() -> None:
    preset = ConfigLayer(PRESET, {"cpus-per-task": 1}, "torch_mnist")
    made = plan({"nodes": 2}, SITE, CUDA, PACKAGED, preset)
    assert made.resources.cpus_per_task == 16
    assert plan({"nodes": 2, "cpus-per-task": 3}).resources.cpus_per_task == 3


def test_more_ranks_than_gpus_are_refused_with_both_ways_out() -> None:
    (refusal,) = plan({"nodes": 2, "ntasks-per-node": 8}).refusals
    ways_out = ("--ntasks-per-node 4", "--gpus-per-node 0")
    assert sentences.told(refusal) == ("gpu-shared", *ways_out)


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        ({}, ["--partition gpu", "--gpus-per-node 0"]),
        ({"nv": True}, ["--partition gpu", "--gpus-per-node 0, leave out --nv"]),
    ],
)
def test_where_only_another_partition_has_gpus(flags: dict[str, Any], lines: list[str]) -> None:
    (refusal,) = plan({"nodes": 2, **flags}, ON_CPUS).refusals
    assert sentences.told(refusal) == ("gpu-image-without-gpus", *lines)
    assert requested(plan({"nodes": 2, "partition": "gpu", **flags}, ON_CPUS)) == ("4", 4)
    assert requested(plan({"nodes": 2, "gpus-per-node": "0"}, ON_CPUS)) == (None, 1)


def test_of_several_partitions_those_with_gpus_count() -> None:
    assert requested(plan({"nodes": 2, "partition": "cpu,gpu"}, ON_CPUS)) == ("4", 4)


def test_an_environment_on_nodes_without_gpus_is_warned_not_refused() -> None:
    """What pip installs for PyTorch is for CUDA, and computes on CPUs too."""
    flags = {"nodes": 2, "runtime": "none"}
    made = plan(flags, ON_CPUS)
    assert requested(made) == (None, 1)
    assert sentences.ids(made.warnings) == ["gpu-image-on-cpus"]
    assert not plan(flags, UNCOUNTED).warnings


def test_where_slurm_lists_no_gpu_there_is_one_warning() -> None:
    made = plan({"nodes": 2}, UNCOUNTED)
    assert requested(made) == (None, 1)
    (warning,) = made.warnings
    assert sentences.told(warning) == ("gpu-image-on-cpus", "--nv", "--gpus-per-node 0")
    given = plan({"nodes": 2, "nv": True}, UNCOUNTED)
    assert given.gpus.vendor is GpuVendor.NVIDIA
    for flags in ({"nv": True}, {"gpus-per-node": "0"}, {"nv": False}):
        assert not plan({"nodes": 2, **flags}, UNCOUNTED).warnings


def test_where_nothing_is_known_of_the_nodes_the_number_is_asked_for() -> None:
    (warning,) = plan({"nodes": 2}, replace(SITE, partitions=())).warnings
    remedies = ("--gpus-per-node 1", "--gpus-per-node 0")
    assert sentences.told(warning) == ("gpu-image-on-cpus", *remedies)


MIXED = replace(
    SITE,
    partitions=(
        partition(
            "mixed",
            NodeGroup(2, (("A100", 4),), ("x86", "gpu", "rome")),
            NodeGroup(9, (), ("x86", "rome")),
            NodeGroup(4, (("V100", 2),), ("x86", "gpu")),
            default=True,
        ),
    ),
)


@pytest.mark.parametrize(
    ("flags", "gpus", "constraint"),
    [
        ({}, "2", "gpu"),
        ({"constraint": "rome&gpu"}, "4", "rome&gpu"),
        ({"constraint": "x86|arm"}, "2", "x86|arm"),
        ({"constraint": "rome"}, "4", "rome"),  # Slurm's count of GPUs keeps out the others
    ],
)
def test_of_several_kinds_of_nodes_the_least_and_no_nodes_without(
    flags: dict[str, Any], gpus: str, constraint: str
) -> None:
    made = plan({"nodes": 2, **flags}, MIXED)
    assert requested(made) == (gpus, int(gpus))
    assert made.resources.constraint == constraint
    if not flags:
        assert "nodes of mixed have 2 to 4" in reason(made)
        assert reason(made, "constraint") == "the nodes without GPUs do not have it"


def test_the_cpus_are_those_of_the_nodes_with_the_gpus() -> None:
    """As on Alvis, whose only partition has nodes of 16 CPUs too."""
    large, small = NodeGroup(2, (("A100", 4),), cpus=64), NodeGroup(2, (("V100", 2),), cpus=16)
    site = replace(SITE, partitions=(replace(partition("all", large, small), cpus=16),))
    made = plan({"nodes": 2, "partition": "all", "gpus-per-node": "A100:4"}, site)
    assert requested(made) == ("A100:4", 4)
    assert made.resources.cpus_per_task == 16
    (refusal,) = plan(
        {"partition": "all", "gpus-per-node": "V100:2", "cpus-per-task": 9}, site
    ).refusals
    assert sentences.told(refusal) == ("partition-cpus", "--cpus-per-task 8")


def test_a_constraint_whose_nodes_have_no_gpus() -> None:
    nodes = (NodeGroup(2, (("a100", 4),), ("gpu",)), NodeGroup(2, (), ("cpu",)))
    site = replace(SITE, partitions=(partition("batch", *nodes, default=True),))
    (refusal,) = plan({"nodes": 2, "constraint": "cpu"}, site).refusals
    remedies = ("leave out --constraint", "--gpus-per-node 0")
    assert sentences.told(refusal) == ("gpu-image-without-gpus", *remedies)


@pytest.mark.parametrize(
    ("name", "flags", "gpus", "ranks"),
    [
        ("neuron", {"comment": "pytorch"}, "gpu:8", 8),
        ("perlmutter", {"account": "m1"}, "4", 4),
        ("polaris", {"account": "p"}, "4", 4),
        ("thetagpu", {"account": "p"}, "8", 8),
    ],
)
def test_by_the_profile_of_a_site_in_its_own_form(
    name: str, flags: dict[str, Any], gpus: str, ranks: int
) -> None:
    made = plan({"nodes": 2, **flags}, of_profile(name))
    assert not made.refusals
    assert (made.resources.gres or made.resources.gpus_per_node) == gpus
    assert made.resources.tasks_of_a_node == ranks


def test_pbs_without_a_number_in_its_profile_s_settings() -> None:
    site = of_profile("polaris")
    assert site.profile
    left = {name: v for name, v in site.profile.launch.items() if "per-node" not in name}
    site = replace(site, profile=replace(site.profile, launch=left))
    made = plan({"nodes": 2, "account": "p"}, site)
    assert requested(made) == ("4", 4)
    assert reason(made) == "horovod_gpu.sif is for GPUs and nodes of polaris have 4"


def test_the_site_s_own_number_gives_way_to_zero() -> None:
    flags = {"nodes": 2, "account": "p", "gpus-per-node": "0", "ntasks-per-node": 1}
    made = plan(flags, of_profile("polaris"))
    assert requested(made) == (None, 1)
    assert not [warning for warning in made.warnings if "GPU" in warning.what]


def test_a_site_that_wants_the_type_is_refused_with_a_line_for_each() -> None:
    two = {"account": "a", "nodes": 2}
    (refusal,) = plan(two, of_profile("alvis")).refusals
    id, *remedies = sentences.told(refusal)
    assert id == "site-gpu-type-required"
    kinds = ("T4:8", "V100:2", "A40:4", "A100:4", "A100fat:4")
    assert remedies == [f"--gpus-per-node {kind}" for kind in kinds]
    for kind in kinds:
        assert not plan({**two, "gpus-per-node": kind}, of_profile("alvis")).refusals


def test_within_an_allocation_its_gpus() -> None:
    inside = replace(SITE, allocation="12", allocated_nodes=2, allocated_cpus=64, allocated_gpus=2)
    made = plan({"scheduler": "allocation"}, inside)
    assert requested(made) == ("2", 2)
    assert made.resources.nodes == 2
    assert reason(made) == "horovod_gpu.sif is for GPUs and nodes of job 12 have 2"
    for tasks, ranks in ((1, 1), (4, 2)):  # those that salloc was asked for, and no more than GPUs
        made = plan({"scheduler": "allocation"}, replace(inside, allocated_tasks=tasks))
        assert requested(made) == (str(ranks), ranks)
    poor = plan({"scheduler": "allocation"}, replace(inside, allocated_cpus=1))
    assert requested(poor) == ("1", 1)
    assert reason(poor).endswith("have 2; the job has 1 CPU for ranks")
    (warning,) = plan({"scheduler": "allocation"}, replace(inside, allocated_gpus=0)).warnings
    assert sentences.told(warning) == ("gpu-image-on-cpus", "--gpus-per-node 0")


@pytest.mark.parametrize(
    ("flags", "trainer", "env", "found"),
    [
        ({}, OWN, {}, ("1", 1)),
        ({}, PACKAGED, {}, ("3", 3)),
        ({"nodes": 1}, OWN, {}, ("3", 3)),
        ({}, OWN, {"CUDA_VISIBLE_DEVICES": "0,2"}, ("2", 2)),
        ({}, OWN, {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}, ("2", 2)),
        ({}, PACKAGED, {"CUDA_VISIBLE_DEVICES": ""}, (None, 1)),
    ],
)
def test_on_this_machine_its_own_or_those_that_a_variable_names(
    flags: dict[str, Any], trainer: Trainer, env: dict[str, str], found: tuple[str | None, int]
) -> None:
    here = replace(SITE, gpus=3, cpus=12, environment=env)
    made = plan({"scheduler": "local", **flags}, here, CUDA, trainer)
    assert requested(made) == found


@pytest.mark.parametrize(
    ("nccl", "nodes", "gpus", "words"),
    [
        ("2.27.5", 2, "1g.10gb:1", "28; NCCL before 2.31 uses one MIG instance of a GPU"),
        ("2.31.2", 2, "1g.10gb:28", "28"),
    ],
)
def test_mig_instances_are_named_and_as_many_as_nccl_can_use(
    nccl: str, nodes: int, gpus: str, words: str
) -> None:
    parts = NodeGroup(2, (("1g.10gb", 28),))
    site = replace(SITE, partitions=(partition("mig", parts, default=True),))
    image = replace(CUDA, labels={**CUDA.labels, "nccl.version": nccl})
    made = plan({"nodes": nodes}, site, image)
    assert made.resources.gpus_per_node == gpus
    assert reason(made).endswith(f"nodes of mig have {words}")


def test_of_instances_of_several_types_those_of_the_most_frequent() -> None:
    """All together would be parts of unlike size, which no rank may have two of."""
    parts = NodeGroup(2, (("2g.20gb", 3), ("1g.10gb", 7)))
    made = plan({"nodes": 2}, replace(SITE, partitions=(partition("mig", parts, default=True),)))
    assert requested(made) == ("1g.10gb:1", 1)


@pytest.mark.parametrize(
    "nodes",
    [
        (NodeGroup(2, (("1g.10gb", 7), ("A100", 2))),),
        (NodeGroup(2, (("A100", 2),)), NodeGroup(4, (("1g.10gb", 1),))),
    ],
)
def test_whole_gpus_are_named_where_slurm_could_give_mig_instances(
    nodes: tuple[NodeGroup, ...],
) -> None:
    site = replace(SITE, partitions=(partition("main", *nodes, default=True),))
    made = plan({"nodes": 2}, site)
    assert (requested(made), made.warnings) == (("A100:2", 2), ())
    for flags in ({"gpus-per-node": "2"}, {"gpus": "4"}, {"gpus-per-task": "1", "ntasks": 4}):
        warnings = {warning.id: warning for warning in plan({"nodes": 2, **flags}, site).warnings}
        (remedy,) = warnings["mig-beside-whole"].remedies
        assert remedy.options == (("gpus-per-node", "A100:2"),)
    assert not plan({"nodes": 2, "gres": "gpu:A100:2"}, site).warnings


def test_whole_gpus_of_several_types_are_offered_where_slurm_could_give_mig_instances() -> None:
    nodes = (
        NodeGroup(2, (("A100", 2),)),
        NodeGroup(2, (("H100", 4),)),
        NodeGroup(2, (("1g.5gb", 7),)),
    )
    site = replace(SITE, partitions=(partition("main", *nodes, default=True),))
    made = plan({"nodes": 2}, site)
    assert requested(made) == ("2", 2)
    (warning,) = made.warnings
    assert [remedy.options[0][1] for remedy in warning.remedies] == ["A100:2", "H100:2"]


def test_an_image_for_amd_gpus() -> None:
    nodes = (NodeGroup(2, (("mi250", 8),)), NodeGroup(2, (("A100", 4),)))
    site = replace(SITE, partitions=(partition("main", *nodes, default=True),))
    made = plan({"nodes": 2}, site, ROCM)
    assert requested(made) == ("8", 8)
    assert made.gpus.vendor is GpuVendor.AMD
    assert requested(plan({"nodes": 2}, site)) == ("4", 4)
    (refusal,) = plan({"nodes": 2}, ON_CPUS, ROCM).refusals or (None,)
    assert refusal is None, "the A100 of partition gpu are not AMD's"


@pytest.mark.parametrize(
    ("flags", "on_cpus"),
    [
        ({"nv": True}, "leave out --nv"),
        ({"nv": True, "gpus-per-node": "2"}, "leave out --gpus-per-node, leave out --nv"),
        ({"gpus-per-node": "2"}, "leave out --gpus-per-node"),
    ],
)
def test_a_cpu_image_with_gpus_is_refused(flags: dict[str, Any], on_cpus: str) -> None:
    (refusal,) = plan(flags, SITE, CPU).refusals
    image = "--image horovod_gpu.sif"
    assert sentences.told(refusal) == ("image-without-gpu", image, on_cpus)


def test_a_cpu_image_asks_for_nothing() -> None:
    made = plan({"nodes": 2}, SITE, CPU)
    assert requested(made) == (None, 1)
    assert not made.warnings


def test_a_cpu_image_where_the_site_s_settings_ask_for_gpus() -> None:
    (refusal,) = plan({"nodes": 2, "account": "p"}, of_profile("polaris"), CPU).refusals
    assert [str(remedy) for remedy in refusal.remedies][1] == "--gpus-per-node 0"


def test_one_process_that_trains_no_network_gets_none() -> None:
    """On Polaris those that the site's profile requests, and one rank all the same."""
    assert requested(plan({}, trainer=ALONE)) == (None, 1)
    assert requested(plan({"gpus-per-node": "2"}, trainer=ALONE)) == ("2", 1)
    account = {"account": "a", "sbatch-arg": ["-lfilesystems=home"]}
    made = plan(account, of_profile("polaris"), trainer=ALONE)
    assert requested(made) == ("4", 1)
    assert reason(made, "ntasks-per-node") == "tokenize is one process"
    two = plan({"nodes": 2}, trainer=ALONE)
    assert sentences.ids(two.refusals) == ["one-process"]


def test_no_profile_tells_of_parts_of_gpus() -> None:
    """A site may divide its GPUs: only its Slurm knows."""
    for kind, refused in (("1g.10gb", False), ("a100_2g.10gb", False), ("H100", True)):
        made = plan({"account": "p", "gpus-per-node": f"{kind}:2"}, of_profile("alvis"))
        assert bool(made.refusals) is refused, made.refusals
