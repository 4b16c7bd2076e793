"""The GPU image, as far as it can be known without building its gigabytes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from containers import append_trainers, debian, image_catalogue, lockfile
from containers.definition import arguments
from containers.horovod_image import labels, selftest
from containers.image_catalogue import Image
from runners.core.machine import ARM64

from .. import sentences

GPU, GPU13 = image_catalogue.image("gpu"), image_catalogue.image("gpu13")
ARM = image_catalogue.image("gpu13", ARM64)
ALL = pytest.mark.parametrize("image", [GPU, GPU13, ARM], ids=["gpu", "gpu13", "gpu13-arm64"])
DEFINITION = image_catalogue.HERE / GPU.definition
WHEEL = image_catalogue.HERE / GPU.wheel_definition
LISTING = """\
ELF file    1: mpi_lib_v2.cpython-313-x86_64-linux-gnu.1.sm_70.cubin
ELF file    2: mpi_lib_v2.cpython-313-x86_64-linux-gnu.2.sm_100.cubin
ELF file    3: mpi_lib_v2.cpython-313-x86_64-linux-gnu.3.sm_90.cubin
PTX file    1: mpi_lib_v2.cpython-313-x86_64-linux-gnu.1.sm_90.ptx
"""
CHECK_BUILD = """\
Available Frameworks:
    [X] TensorFlow
    [X] PyTorch
Available Controllers:
    [X] MPI
    [X] Gloo
Available Tensor Operations:
    [ ] NCCL
    [X] MPI
    [X] Gloo
"""


@pytest.mark.parametrize(
    ("image", "cuda", "frameworks"),
    [
        (GPU, "12", {"torch", "tensorflow", "tf-keras"}),
        (GPU13, "13", {"torch"}),
        (ARM, "13", {"torch"}),
    ],
)
def test_the_lock_has_one_major_version_of_cuda(
    image: Image, cuda: str, frameworks: set[str]
) -> None:
    versions = {pin.name: pin.version for pin in lockfile.read(image_catalogue.HERE / image.lock)}
    assert {"torch", "tensorflow", "tf-keras"} & set(versions) == frameworks
    assert {f"nvidia-nccl-cu{cuda}", f"nvidia-cudnn-cu{cuda}"} <= set(versions)
    majors = {match[1] for name in versions if (match := re.match(r"nvidia-.*-cu(\d+)$", name))}
    assert majors == {cuda}
    assert "cpu" not in versions["torch"]


@pytest.mark.parametrize("image", [GPU13, ARM])
def test_cudas_compiler_is_of_the_release_that_torch_is_linked_to(image: Image) -> None:
    """All of it from the package index: Debian has that of CUDA 12 only."""
    lock = image_catalogue.HERE / image.lock
    runtime = {pin.name: pin.version for pin in lockfile.read(lock)}["nvidia-cuda-runtime"]
    compiler = {pin.name: pin.version for pin in lockfile.build(lock)}
    names = {"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl"}
    assert names <= set(compiler)
    release = runtime.rpartition(".")[0]
    assert {compiler[name].rpartition(".")[0] for name in names} == {release}
    assert "nvidia-cuda-toolkit" not in image.packages(WHEEL)


def test_without_tensorflow_its_trainers_are_not_tried() -> None:
    every = append_trainers.for_frameworks(image_catalogue.CHECKOUT, {"pytorch", "tensorflow"})
    assert every == append_trainers.names(image_catalogue.CHECKOUT)
    left = append_trainers.for_frameworks(image_catalogue.CHECKOUT, {"pytorch"})
    assert {"torch_mnist", "lightning_mnist"} <= set(left) < set(every)
    assert not {"tf_mnist", "keras_mnist"} & set(left)


def test_compilers_stay_in_the_stage_that_compiles() -> None:
    compilers = {"nvidia-cuda-toolkit", "g++-13", "libopenmpi-dev", "python3-dev"}
    assert compilers <= set(GPU.packages(WHEEL))
    assert not compilers & set(GPU.packages(DEFINITION))


def test_the_base_to_compile_in_has_nvccs_sections_of_the_archive() -> None:
    names = GPU.packages(WHEEL)
    command = debian.argv("https://m.example/d", GPU.codename, GPU.components, names, Path("o"))
    assert command[-1].endswith("/d trixie-updates main contrib non-free")
    assert "--dpkgopt=path-exclude=/usr/lib/*/libcublas*_static*.a" in command
    assert "main contrib non-free" in WHEEL.read_text()  # in a base from a registry too


def test_both_definitions_start_from_the_catalogues_release() -> None:
    for definition in (DEFINITION, WHEEL):
        assert arguments(definition.read_text())["from"] == GPU.registry_base


@ALL
def test_the_files_that_the_definitions_copy_are_there(image: Image) -> None:
    for definition in (image.definition, image.wheel_definition):
        text = (image_catalogue.HERE / definition).read_text()
        copied = re.findall(r"^    containers/(\S+) /", text, re.MULTILINE)
        assert copied
        for pattern in copied:
            name = pattern.replace("{{ lock }}", image.lock)
            assert list(image_catalogue.HERE.glob(name)), name
    # The definition takes the list of what to leave out by the lock's name.
    assert image.slim == f"{image.lock.partition('.')[0]}.slim"


@pytest.mark.parametrize(("place", "cuda"), [(0, "13"), (1, "12")])
def test_the_self_test_asks_for_what_the_compilation_asks_for(place: int, cuda: str) -> None:
    text = WHEEL.read_text()
    assert re.search(r"HOROVOD_GPU_OPERATIONS=NCCL\b", text)
    asked = re.findall(r"HOROVOD_BUILD_CUDA_CC_LIST=([\d,]+)", text)[place]
    native = {f"{number[:-1]}.{number[-1]}" for number in asked.split(",")}
    newest = max(native, key=float)
    flags = re.findall(r"code=sm_(\d+)", text) if cuda == "13" else []  # of NVCC_APPEND_FLAGS
    native |= {f"{number[:-1]}.{number[-1]}" for number in flags}
    assert native | {f"{newest}+PTX"} == selftest.CAPABILITIES[cuda]


def test_what_compiles_for_cuda_13_is_on_the_lines_for_cuda_13() -> None:
    """One definition for both, and the lock decides."""
    text = WHEEL.read_text()
    test = re.escape("if grep -q '^nvidia-nccl-cu13==' /opt/image.lock; then")
    branches = re.search(rf"{test}\n(.*?)\n    else\n(.*?)\n    fi\n", text, re.DOTALL)
    assert branches is not None
    assert "arch=compute_120,code=sm_120" in branches[1]
    assert "CUDA_HOME" in branches[1]
    assert "CUDA_HOME" not in branches[2]
    for image, there in ((GPU, False), (GPU13, True), (ARM, True)):
        lock = (image_catalogue.HERE / image.lock).read_text()
        assert bool(re.search("^nvidia-nccl-cu13==", lock, re.MULTILINE)) is there


def test_compute_capabilities_are_read_from_the_library_itself() -> None:
    assert labels.parse_capabilities(LISTING) == ["7.0", "9.0", "9.0+PTX", "10.0"]
    assert labels.parse_capabilities("") == []


def test_an_image_without_cuda_says_so() -> None:
    assert labels.cuda_labels(None) == {"cuda.version": "none"}


def ranks(monkeypatch: pytest.MonkeyPatch, *built: str) -> list[str]:
    """Replace the ranks by ones whose Horovod has these; return which frameworks start."""
    started: list[str] = []

    def prove_both(framework: str) -> list[str]:
        started.append(framework)
        return list(built)

    monkeypatch.setattr(selftest, "prove_both", prove_both)
    for name in ("prove", "prove_program", "prove_libraries", "prove_tools", "prove_gpu_code"):
        monkeypatch.setattr(selftest, name, lambda *_: None)
    return started


@pytest.mark.parametrize(
    ("built", "missing"),
    [(("CUDA", "MPI", "Gloo"), "NCCL"), (("NCCL", "MPI", "Gloo"), "CUDA")],
)
def test_horovod_without_nccl_or_cuda_fails_the_gpu_selftest(
    built: tuple[str, ...],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ranks(monkeypatch, *built)
    monkeypatch.setattr(selftest, "locked", lambda: {"torch", "tensorflow", "nvidia-nccl-cu12"})
    assert selftest.main([]) == 1
    assert missing in sentences.said(capsys.readouterr().err)


def test_what_must_be_there_is_in_the_images_own_lock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A framework that the lock names is started; one that it leaves out is not."""
    started = ranks(monkeypatch, "MPI", "Gloo")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "a.lock").write_text("# tensorflow==1 is not here\ntorch==2.13.0 --hash=x\n")
    assert selftest.main([]) == 0
    assert started == ["torch"]
    assert "operations: MPI, Gloo" in capsys.readouterr().out
    (tmp_path / "a.lock").write_text("torch==2.13.0 --hash=x\ntensorflow-cpu==2 --hash=x\n")
    assert selftest.main([]) == 0
    assert started == ["torch", "torch", "tensorflow"]


def test_code_that_lacks_a_generation_of_gpus_fails_the_selftest() -> None:
    with sentences.refuses(selftest.Failed):
        selftest.require("GPU code for torch", {"8.0", "8.9"}, ["8.0"])


def test_the_help_names_the_driver_that_the_labels_name() -> None:
    text = Path(DEFINITION).read_text()
    for driver in labels.OLDEST_DRIVER.values():
        assert driver in text[text.index("%help") :]
