"""What sites refuse, warn of and want said in their own way: one line for each case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.core.diagnosis import Diagnosis
from runners.core.model import ImageInfo, JobSpec, SchedulerName
from runners.core.plan import Variable
from runners.core.site import Profile, Site
from runners.core.trainer import Framework, Trainer
from runners.planning import site_limits, site_rules
from runners.planning.case import DecisionLog, JobResources, RankResources

from .. import sentences
from ..sites.profiles import job, shipped

HOME = {"USER": "ada", "HOME": "/home/ada"}
HERE = "/scratch/ada/job"
TENSORFLOW = Trainer("tf_mnist", "recipes.tf_mnist", None, (), Framework.TENSORFLOW)
OWN = Trainer("train", None, Path("/scratch/ada/train.py"), (), None)

REFUSED: list[tuple[str, dict[str, Any], str, tuple[str, ...]]] = [
    ("neuron", {}, "site-setting", ("--comment pytorch",)),
    ("neuron", {"trainer": TENSORFLOW}, "site-setting", ("--comment tensorflow",)),
    ("neuron", {"trainer": OWN}, "site-setting", ("--comment pytorch",)),
    ("neuron", {"comment": "x", "mem": "4G"}, "site-forbids", ("leave out --mem",)),
    (
        "neuron",
        {"comment": "x", "sbatch_args": ("--mem-per-cpu=1G",)},
        "site-forbids",
        ("leave out --sbatch-arg",),
    ),
    ("neuron", {"comment": "x", "time": "3-0"}, "site-time", ("--time 48:00:00",)),
    (
        "neuron",
        {"comment": "x", "runs_dir": Path("/home/ada/runs")},
        "site-runs-folder",
        ("--runs-dir /scratch/ada/runs",),
    ),
    (
        "perlmutter",
        {"account": "m1_g", "gpus_per_node": "4", "constraint": "cpu"},
        "site-setting",
        ("--constraint gpu",),
    ),
    ("perlmutter", {"qos": None}, "site-setting", ("--qos regular",)),
    (
        "alvis",
        {"account": "a", "nodes": 2, "gpus_per_node": "A100:2"},
        "site-whole-nodes",
        ("--gpus-per-node A100:4", "--nodes 1"),
    ),
    (
        "alvis",
        {"account": "a", "nodes": 3, "gpus_per_node": "V100:3"},
        "site-whole-nodes",
        ("--gpus-per-node V100:2", "--gpus-per-node V100:4", "--nodes 1"),
    ),
    (
        "alvis",
        {"account": "a", "gpus_per_node": "2"},
        "site-gpu-type-required",
        tuple(f"--gpus-per-node {kind}:2" for kind in ("T4", "V100", "A40", "A100", "A100fat")),
    ),
    (
        "alvis",
        {"account": "a", "time": "UNLIMITED"},
        "site-time",
        ("--time 7-00:00:00",),
    ),
    ("alvis", {"gpus_per_node": "T4:1"}, "site-setting", ("--account PROJECT",)),
    (
        "alvis",
        {"account": "a", "time": "8-0"},
        "site-time",
        ("--time 7-00:00:00",),
    ),
    ("polaris", {}, "site-setting", ("--account ACCOUNT",)),
    (
        "polaris",
        {"account": "a", "time": "02:00:00"},
        "site-time",
        ("--time 01:00:00",),
    ),
    (
        "polaris",
        {"account": "a", "nodes": 4, "partition": "prod"},
        "site-nodes",
        (
            "--partition debug-scaling",
            "--partition preemptable",
            "--partition capacity",
            "--nodes 10",
        ),
    ),
    (
        "polaris",
        {"account": "a", "nodes": 12},
        "site-nodes",
        ("--partition prod", "--nodes 10"),
    ),
    (
        "polaris",
        {"account": "a", "gpus_per_node": "8"},
        "site-gpus-per-node",
        ("--gpus-per-node 4",),
    ),
    (
        "polaris",
        {"account": "a", "cpus_per_task": 16},
        "site-cpus",
        ("--cpus-per-task 8",),
    ),
    (
        "thetagpu",
        {"account": "a", "partition": "single-gpu", "ntasks_per_node": 1},
        "site-gpus-per-node",
        ("--gpus-per-node 1",),
    ),
]


Checked = tuple[tuple[Diagnosis, ...], tuple[Diagnosis, ...]]


def decided(spec: JobSpec) -> JobResources:
    """Return what the job asks for, as where no step changes it."""
    return JobResources(RankResources(spec.resources))


def checked(
    profile: Profile,
    spec: JobSpec,
    cwd: str = HERE,
    env: dict[str, str] | None = None,
    architecture: str = "",
) -> Checked:
    """Return the refusals and warnings of a job submitted from `cwd`."""
    site = Site((SchedulerName.SLURM,), cwd=cwd, environment={**HOME, **(env or {})})
    image = ImageInfo(spec.image.path, architecture=architecture)
    log = DecisionLog()
    site_rules.check(replace(spec, image=image), decided(spec), site, profile, log)
    return tuple(log.refusals), tuple(log.warnings)


@pytest.mark.parametrize(("name", "asked", "id", "remedies"), REFUSED)
def test_refused(name: str, asked: dict[str, Any], id: str, remedies: tuple[str, ...]) -> None:
    profile = shipped(name)
    refusals, _ = checked(profile, job(profile, **asked))
    (refusal,) = refusals
    assert sentences.told(refusal) == (id, *remedies)
    assert "2026-" in refusal.evidence


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("neuron", {"comment": "pytorch", "gres": "gpu:8", "nodes": 2, "ntasks_per_node": 8}),
    ("neuron", {"sbatch_args": ("--comment=pytorch",), "time": "2-0"}),
    ("neuron", {"sbatch_args": ("--comment", "pytorch")}),
    ("neuron", {"scheduler": SchedulerName.ALLOCATION}),
    ("neuron", {"scheduler": SchedulerName.LOCAL}),
    ("perlmutter", {"account": "m1_g", "gpus_per_node": "4", "nodes": 2, "ntasks_per_node": 4}),
    ("perlmutter", {"gpus_per_node": "4", "constraint": "gpu&hbm80g"}),
    ("perlmutter", {"account": "m1", "constraint": "cpu"}),
    ("perlmutter", {"account": "m1", "gpus_per_node": "4", "nodes": 2}),
    ("polaris", {"account": "a", "nodes": 4, "partition": "capacity", "time": "168:00:00"}),
    ("alvis", {"account": "NAISS1", "nodes": 2, "gpus_per_node": "A100:4"}),
    ("alvis", {"account": "a", "gpus_per_node": "a100:1", "time": "7-0"}),
    ("alvis", {"account": "a", "nodes": 3, "gpus_per_node": "T4:8"}),
    ("tuhpc", {"nodes": 2}),
    ("polaris", {"account": "a", "nodes": 10}),
    ("thetagpu", {"account": "a", "nodes": 4, "time": "12:00:00"}),
]


@pytest.mark.parametrize(("name", "asked"), ACCEPTED)
def test_accepted(name: str, asked: dict[str, Any]) -> None:
    profile = shipped(name)
    assert checked(profile, job(profile, **asked))[0] == ()


@pytest.mark.parametrize(
    ("cwd", "env", "remedy"),
    [
        ("/scratch/ada", {}, None),
        ("/scratch/ada/a/b", {}, None),
        ("/home/ada", {}, "cd /scratch/ada && the same command once more"),
        ("/scratch/adam", {}, "cd /scratch/ada && the same command once more"),
        ("/scratch", {}, "cd /scratch/ada && the same command once more"),
        ("/scratch/ada/../bob", {}, "cd /scratch/ada && the same command once more"),
        ("/lustre/u17/ada", {"PWD": "/scratch/ada/link"}, None),
    ],
)
def test_neuron_takes_jobs_from_scratch_only(
    cwd: str, env: dict[str, str], remedy: str | None
) -> None:
    profile = shipped("neuron")
    refusals, _ = checked(profile, job(profile, comment="x"), cwd, env)
    offered = [tuple(map(str, refusal.remedies)) for refusal in refusals]
    assert offered == ([(remedy,)] if remedy else [])


WARNED: list[tuple[str, dict[str, Any], str]] = [
    ("alvis", {"nodes": 2, "gpus_per_node": "A40:4"}, "no-fast-network"),
    ("alvis", {"nodes": 1, "gpus_per_node": "A40:4"}, ""),
    ("alvis", {"nodes": 2, "gpus_per_node": "A100:4"}, ""),
    ("alvis", {"gpus_per_node": "H100:4"}, "site-gpu-type-unknown"),
    ("perlmutter", {}, "gpus-not-requested"),
    ("perlmutter", {"constraint": "cpu"}, ""),
    ("neuron", {"comment": "x"}, "gpus-not-requested"),
    ("tuhpc", {}, ""),
]


@pytest.mark.parametrize(("name", "asked", "id"), WARNED)
def test_warned(name: str, asked: dict[str, Any], id: str) -> None:
    profile = shipped(name)
    _, warnings = checked(profile, job(profile, **asked))
    assert sentences.ids(warnings) == ([id] if id else [])


FORMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("neuron", {"gpus_per_node": "8"}, {"gres": "gpu:8"}),
    ("neuron", {"gpus_per_node": "A100:8"}, {"gres": "gpu:A100:8"}),
    ("neuron", {"gpus": "16", "nodes": 2}, {"gres": "gpu:8"}),
    ("neuron", {"gpus_per_task": "1", "ntasks_per_node": 8}, {"gres": "gpu:8"}),
    ("neuron", {"gpus_per_node": "2", "gres": "nvme:1"}, {"gres": "nvme:1,gpu:2"}),
    ("neuron", {"gres": "gpu:8"}, {"gres": "gpu:8"}),
    ("alvis", {"gres": "gpu:A100:4"}, {"gpus_per_node": "A100:4"}),
    ("alvis", {"gpus": "T4:8"}, {"gpus_per_node": "T4:8"}),
    ("perlmutter", {"gres": "gpu:4,lustre:1"}, {"gpus_per_node": "4", "gres": "lustre:1"}),
    ("tuhpc", {"gpus": "2"}, {"gpus": "2"}),
    ("neuron", {}, {}),
]


@pytest.mark.parametrize(("name", "asked", "wanted"), FORMS)
def test_gpus_are_asked_for_in_the_sites_way(
    name: str, asked: dict[str, Any], wanted: dict[str, Any]
) -> None:
    resources, log = job(**asked).resources, DecisionLog()
    changed = site_rules.in_sites_gpu_form(resources, shipped(name), log)
    ways = ("gpus", "gpus_per_node", "gpus_per_task", "gres")
    found = {way: getattr(changed, way) for way in ways}
    assert {way: text for way, text in found.items() if text} == wanted
    assert bool(log.choices) == (changed != resources)
    assert site_rules.in_sites_gpu_form(changed, shipped(name), log) == changed


def test_the_sites_variables() -> None:
    profile = shipped("perlmutter")

    def variables(**asked: Any) -> tuple[Variable, ...]:
        spec = job(profile, **asked)
        return site_rules.variables(spec, decided(spec), profile)

    found = {
        variable.name: (variable.value, variable.where) for variable in variables(gpus_per_node="4")
    }
    assert found["FI_MR_CACHE_MONITOR"] == ("userfaultfd", "job")
    assert found["CUDA_VISIBLE_DEVICES"] == ("3,2,1,0", "image")
    others: tuple[dict[str, Any], ...] = (
        {"gpus_per_node": "2"},
        {"gpus_per_task": "1", "ntasks_per_node": 4},
        {"gpus_per_node": "4", "env": (("CUDA_VISIBLE_DEVICES", "0,1,2,3"),)},
        {},
    )
    for part in others:
        names = {variable.name for variable in variables(**part)}
        assert "CUDA_VISIBLE_DEVICES" not in names


@pytest.mark.parametrize(
    ("name", "asked", "kinds"),
    [
        ("neuron", {"partition": "gh200_1"}, ["gh200_1"]),
        ("neuron", {"partition": "cas_v100_2", "gres": "gpu:V100:2"}, ["cas_v100_2"]),
        ("neuron", {"partition": "new"}, []),
        ("alvis", {"gpus_per_node": "V100:2"}, ["V100-2", "V100-4"]),
        ("alvis", {"gpus_per_node": "a100FAT:2"}, ["A100fat"]),
        ("alvis", {}, []),
        ("perlmutter", {"constraint": "gpu&hbm80g"}, ["gpu"]),
        ("perlmutter", {"constraint": "cpu"}, ["cpu"]),
        ("polaris", {}, ["node"]),
    ],
)
def test_kinds_of_nodes_that_a_job_can_get(
    name: str, asked: dict[str, Any], kinds: list[str]
) -> None:
    assert [
        kind.name for kind in site_limits.node_kinds(job(**asked).resources, shipped(name))
    ] == kinds


@pytest.mark.parametrize(
    ("name", "asked", "architecture", "remedies"),
    [
        (
            "neuron",
            {"partition": "gh200_1"},
            "amd64",
            ("--partition amd_a100nv_8", "runner pull --arch arm64 IMAGE"),
        ),
        ("neuron", {"partition": "gh200_1"}, "arm64", None),
        ("neuron", {"partition": "gh200_1"}, "", None),
        ("neuron", {"partition": "new"}, "arm64", None),
        (
            "alvis",
            {"account": "a", "gpus_per_node": "A100:4"},
            "arm64",
            ("runner pull --arch amd64 IMAGE",),
        ),
        ("tuhpc", {}, "arm64", None),
        (
            "neuron",
            {"partition": "gh200_1,cas_v100_4"},
            "amd64",
            ("--partition cas_v100_4", "--partition gh200_1"),
        ),
        ("neuron", {"partition": "cas_v100_2,cas_v100_4"}, "amd64", None),
    ],
)
def test_an_image_for_other_machines(
    name: str, asked: dict[str, Any], architecture: str, remedies: tuple[str, ...] | None
) -> None:
    profile = shipped(name)
    spec = job(profile, comment="x", **asked)
    refusals, _ = checked(profile, spec, architecture=architecture)
    offered = [tuple(map(str, refusal.remedies)) for refusal in refusals]
    assert offered == ([remedies] if remedies else [])


def test_a_rule_without_a_source_says_whose_it_is() -> None:

    assert site_limits.because(Profile("x"), "rules.gpu_type") == "the profile of x"
