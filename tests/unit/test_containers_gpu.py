"""The GPU image, as far as it can be known without building its gigabytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from containers import catalogue, debian, lockfile
from containers.definition import arguments, packages
from containers.horovod_image import labels, selftest

GPU = catalogue.image("gpu")
DEFINITION = catalogue.HERE / GPU.definition
WHEEL = catalogue.HERE / GPU.wheel_definition
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


def test_the_lock_has_one_major_version_of_cuda() -> None:
    versions = {pin.name: pin.version for pin in lockfile.read(catalogue.HERE / GPU.lock)}
    assert {"torch", "tensorflow", "tf-keras", "nvidia-nccl-cu12", "nvidia-cudnn-cu12"} <= set(
        versions
    )
    majors = {match[1] for name in versions if (match := re.match(r"nvidia-.*-cu(\d+)$", name))}
    assert majors == {"12"}
    assert "cpu" not in versions["torch"]


def test_compilers_stay_in_the_stage_that_compiles() -> None:
    compilers = {"nvidia-cuda-toolkit", "g++-13", "libopenmpi-dev", "python3-dev"}
    assert compilers <= set(packages(WHEEL))
    assert not compilers & set(packages(DEFINITION))


def test_the_base_to_compile_in_has_nvccs_sections_of_the_archive() -> None:
    names = packages(WHEEL)
    command = debian.argv("https://m.example/d", GPU.codename, GPU.components, names, Path("o"))
    assert command[-1].endswith("/d trixie-updates main contrib non-free")
    assert "--dpkgopt=path-exclude=/usr/lib/*/libcublas*_static*.a" in command
    assert "main contrib non-free" in WHEEL.read_text()  # in a base from a registry too


def test_both_definitions_start_from_the_catalogues_release() -> None:
    for definition in (DEFINITION, WHEEL):
        assert arguments(definition.read_text())["from"] == GPU.registry_base


def test_the_files_that_the_definitions_copy_are_there() -> None:
    for definition in (DEFINITION, WHEEL):
        copied = re.findall(r"^    containers/(\S+) /", definition.read_text(), re.MULTILINE)
        assert copied
        for pattern in copied:
            name = pattern.replace("{{ lock }}", GPU.lock)
            assert list(catalogue.HERE.glob(name)), name


def test_the_self_test_asks_for_what_the_compilation_asks_for() -> None:
    text = WHEEL.read_text()
    assert re.search(r"HOROVOD_GPU_OPERATIONS=NCCL\b", text)
    asked = re.search(r"HOROVOD_BUILD_CUDA_CC_LIST=([\d,]+)", text)
    assert asked is not None
    native = {f"{number[:-1]}.{number[-1]}" for number in asked[1].split(",")}
    newest = max(native, key=float)
    assert native | {f"{newest}+PTX"} == selftest.CAPABILITIES


def test_compute_capabilities_are_read_from_the_library_itself() -> None:
    assert labels.parse_capabilities(LISTING) == ["7.0", "9.0", "9.0+PTX", "10.0"]
    assert labels.parse_capabilities("") == []


def test_an_image_without_cuda_says_so() -> None:
    assert labels.cuda_labels(None) == {"cuda.version": "none"}


def test_horovod_without_nccl_fails_the_gpu_selftest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "check_build", lambda: selftest.parse_build(CHECK_BUILD))
    monkeypatch.setattr(selftest, "for_gpus", lambda: True)
    assert selftest.main([]) == 1
    assert "Horovod was built without NCCL (operations)" in capsys.readouterr().err


def test_code_that_lacks_a_generation_of_gpus_fails_the_selftest() -> None:
    with pytest.raises(selftest.Failed, match=r"built without 8\.9 \(GPU code for torch\)"):
        selftest.require("GPU code for torch", {"8.0", "8.9"}, ["8.0"])


def test_the_help_names_the_driver_that_the_labels_name() -> None:
    text = Path(DEFINITION).read_text()
    assert labels.OLDEST_DRIVER["12"] in text[text.index("%help") :]
