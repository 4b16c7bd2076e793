"""Which image of ours a GPU and a driver want: in the table, in the plan, by the doctor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.core.machine import ARM64
from runners.core.model import ImageInfo, JobSpec, Resources, RuntimeName, SchedulerName
from runners.core.plan import Plan
from runners.core.site import Partition, Site
from runners.core.trainer import Framework, Trainer
from runners.doctor.checks import check_gpus
from runners.doctor.timed import Answer
from runners.planning import gpu_image, solver
from runners.planning.case import Case
from runners.planning.gpu_image import CUDA12, CUDA13

from .. import sentences
from ..plans import planned

CODE = "cuda.capabilities"
GPU = ImageInfo(
    Path("/i/horovod_gpu.sif"),
    {
        "cuda.version": "12.8",
        "cuda.driver.minimum": "525.60.13",
        CODE: "7.0,7.5,8.0,8.6,8.9,9.0,9.0+PTX",
        "horovod.controllers": "gloo",
        "horovod.operations": "nccl,gloo",
    },
)
GPU13 = ImageInfo(
    Path("/i/horovod_gpu13.sif"),
    {
        **GPU.labels,
        "cuda.version": "13.0",
        "cuda.driver.minimum": "580.65.06",
        CODE: "7.5,8.0,9.0,10.0,10.0+PTX,12.0",
    },
)
CPU = ImageInfo(Path("/i/horovod_cpu.sif"), {"cuda.version": "none", "horovod.controllers": "gloo"})
SPEC = JobSpec("job", GPU, Trainer("t", None, Path("/t.py")), Resources(), Path("/r"))
SITE = Site(
    (SchedulerName.SLURM,),
    ("none",),
    RuntimeName.APPTAINER,
    partitions=(
        Partition("old", nodes=4, cpus=64, gpus=(("V100", 4),)),
        Partition("new", nodes=4, cpus=64, gpus=(("b200", 8),)),
        Partition("mixed", nodes=4, cpus=64, gpus=(("V100", 4), ("b200", 4))),
    ),
)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("v100", "7.0"),
        ("Tesla V100-PCIE-16GB", "7.0"),
        ("Tesla T4", "7.5"),
        ("Quadro RTX 6000", "7.5"),
        ("A100", "8.0"),
        ("a100_2g.10gb", "8.0"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("l40s", "8.9"),
        ("NVIDIA H200", "9.0"),
        ("gh200_1", "9.0"),
        ("GB200", "10.0"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("rtx5090", "12.0"),
        ("1g.10gb", ""),
        ("mi250", ""),
        ("", ""),
    ],
)
def test_the_compute_capability_of_a_gpus_name(name: str, number: str) -> None:
    assert gpu_image.capability(name) == number


@pytest.mark.parametrize(
    ("kind", "driver", "framework", "image"),
    [
        ("V100", "", None, CUDA12),
        ("V100", "580.159", None, CUDA12),
        ("B200", "", None, CUDA13),
        ("H100", "580.65.06", None, CUDA13),
        ("H100", "550.54.15", None, CUDA12),
        ("B200", "570.86", None, CUDA12),
        ("H100", "580.159", Framework.TENSORFLOW, CUDA12),
        ("", "580.159", None, CUDA13),
        ("H100", "", None, None),
        ("P100", "580.159", None, None),
        ("H100", "470.57.02", None, None),
        ("", "", None, None),
    ],
)
def test_the_image_for_a_gpu_and_a_driver(
    kind: str, driver: str, framework: Framework | None, image: str | None
) -> None:
    found = gpu_image.recommended(kind, driver, framework)
    assert (found and found.image) == image
    for_arm = gpu_image.recommended(kind, driver, framework, ARM64)
    assert (for_arm and for_arm.image) == (CUDA13 if image == CUDA13 else None)


@pytest.mark.parametrize(
    ("number", "image", "runs"),
    [
        ("7.0", GPU13, ""),
        ("8.6", GPU13, "native"),  # 8.0's
        ("10.3", GPU13, "native"),
        ("11.0", GPU13, "PTX"),
        ("12.0", GPU13, "native"),
        ("10.0", GPU, "PTX"),
        ("6.0", GPU, ""),
    ],
)
def test_what_of_an_image_runs_on_a_gpu(number: str, image: ImageInfo, runs: str) -> None:
    assert gpu_image.runs(number, image.listed(CODE)) == runs


def solved(image: ImageInfo, gpus: str, partition: str, site: Site = SITE) -> Plan:
    resources = Resources(gpus_per_node=gpus, partition=partition)
    return planned(SPEC, site, image=image, resources=resources)


def test_an_image_without_code_for_the_gpu_is_refused_with_the_one_that_has_it() -> None:
    for gpus, partition in (("1", "old"), ("V100:1", "mixed")):
        (refusal,) = solved(GPU13, gpus, partition).refusals
        assert sentences.told(refusal)[:2] == ("gpu-code-missing", "--image horovod_gpu.sif")
    assert not solved(GPU, "1", "old").refusals
    assert not solved(GPU13, "1", "mixed").refusals, "which of its GPUs is not known"


def test_where_only_ptx_runs_the_newer_image_is_named() -> None:
    made = solved(GPU, "1", "new")
    assert not made.refusals
    told = [sentences.told(warning) for warning in made.warnings]
    assert told == [("gpu-code-ptx", "--image horovod_gpu13.sif")]
    assert "gpu-code-ptx" not in sentences.ids(solved(GPU13, "1", "new").warnings)


def test_a_cpu_image_for_gpus_is_refused_with_the_image_for_them() -> None:
    for partition, image in (("old", CUDA12), ("new", CUDA13)):
        (refusal,) = solved(CPU, "1", partition).refusals
        assert sentences.told(refusal)[:2] == ("image-without-gpu", f"--image {image}")


def test_a_driver_too_old_for_cuda_13_is_refused_with_the_image_with_cuda_12() -> None:
    alone = Site((), (), RuntimeName.APPTAINER, driver="550.54.15")
    case = Case(replace(SPEC, image=GPU13, resources=Resources(gpus_per_node="1")), alone)
    (refusal,) = solver.solve(case).refusals
    assert sentences.told(refusal)[:2] == ("driver-too-old", "--image horovod_gpu.sif")


@pytest.mark.parametrize(
    ("driver", "device", "built", "says", "next_step"),
    [
        ("580.159", "NVIDIA H200", (), "horovod_gpu13.sif is for", ["runner build gpu13"]),
        ("580.159", "NVIDIA H200", (CUDA13,), "horovod_gpu13.sif is for", []),
        ("550.54.15", "NVIDIA H200", (CUDA13,), "horovod_gpu.sif is for", ["runner build gpu"]),
        ("580.159", "Tesla V100-SXM2-32GB", (), "horovod_gpu.sif is for", ["runner build gpu"]),
        ("580.159", "Tesla P100-PCIE-16GB", (), "no image of this project has code", None),
    ],
)
def test_the_doctor_names_the_image_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    device: str,
    built: tuple[str, ...],
    says: str,
    next_step: list[str] | None,
) -> None:
    monkeypatch.setattr(check_gpus, "architecture", lambda: "amd64")
    listed = Answer("nvidia-smi -L", f"GPU 0: {device} (UUID: GPU-7ae3)\n")
    (found,) = [
        finding
        for finding in check_gpus.check(check_gpus.Gpu(driver, listed, "", built))
        if finding.name == "image"
    ]
    assert says in found.what
    assert device in found.evidence
    if next_step is not None:
        assert [str(remedy) for remedy in found.remedies] == next_step
    else:
        assert "compute capability 6.0" in found.evidence
        assert "runner build --from" in str(found.remedies[0])
